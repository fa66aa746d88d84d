// The outline of a session: for each event its role, size, time, thread and pair, in blocks of 4,096. With it a list
// of any length knows its rows and about how high they are, before any event is fetched.
import { ask, get, sessionPath } from "./client.js";
import { ROLES } from "../reading/entry.js";

export const [USER, AGENT, THINKING, TOOL, RESULT, SYSTEM, ERROR, STATUS, OTHER] = ROLES.keys();
export const FAILED = 1, QUIET = 2, HAS_RESULT = 4, COMPACTION = 8, IMAGE = 16, REDACTED = 32, INHERITED = 64,
  HIDDEN = 128;
const BLOCKS_KEPT = 48, BLOCK = 4096, TABLED_BLOCKS = 16;
export const TABLED_EVENTS = TABLED_BLOCKS * BLOCK;
const COLUMNS = [["bytes", Uint32Array], ["pair", Int32Array], ["at", Uint32Array], ["key", Uint32Array],
  ["name", Uint16Array], ["characters", Uint16Array], ["thread", Uint16Array], ["role", Uint8Array],
  ["flags", Uint8Array]];

/** One block: columns of equal length, and the model requests in it. */
export class Block {
  constructor(from, count, t0 = 0) {
    Object.assign(this, { from, count, t0, requests: [], version: 0 });
    for (const [name, Kind] of COLUMNS) this[name] = new Kind(BLOCK);
  }

  static decoded(buffer) {
    const view = new DataView(buffer);
    if (view.getUint32(0) !== 0x44534f31) throw new Error("This is no block of an outline.");
    const count = view.getUint32(8, true), tail = view.getUint32(12, true);
    const block = new Block(view.getUint32(4, true), count, view.getFloat64(16, true));
    let at = 24;
    for (const [name, Kind] of COLUMNS) {
      const bytes = count * Kind.BYTES_PER_ELEMENT;
      block[name].set(new Kind(buffer.slice(at, at + bytes)));
      at += bytes;
    }
    block.requests = JSON.parse(new TextDecoder().decode(buffer.slice(at, at + tail)) || "[]");
    return block;
  }

  /** @returns {number} when the so-many-th event of the block happened, in milliseconds; 0 if nobody knows */
  time(index) {
    return this.t0 + this.at[index];
  }
}

/** All blocks of a session. `changed` is called when something has come that may change what is shown. */
export class Outline {
  /** `incarnation` tells the session from another one that gets its id: that is not read. */
  constructor(session, changed, incarnation) {
    this.session = session;
    this.incarnation = incarnation;
    this.changed = changed;
    this.blocks = new Map();
    this.asked = new Map();
    this.summaries = [];
    this.events = 0;
    this.names = [];
    this.threads = [];
    this.points = [];
    this.complete = false;
    this.offset = null;
  }

  /** Read the overview; again, in the background, until every block has been made. */
  async open() {
    await this.refresh();
    if (!this.complete) this.complement();
  }

  async refresh() {
    const found = await get(sessionPath(this.session, "/outline"), { points: 1000, incarnation: this.incarnation });
    this.offset ??= found.offset;
    this.events = Math.max(this.events, found.events);
    this.summaries = found.blocks;
    this.points = found.points;
    this.names = found.names;
    this.threads = found.threads;
    this.threadNames = null;
    this.complete = found.complete;
    this.through = found.through;
  }

  async complement() {
    for (let round = 0; !this.complete && round < 100 && !this.closed; round++) {
      try { await this.refresh(); } catch { return; }
      this.changed("overview");
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
  }

  /** What the strip draws: each event by itself where they are few, else the points of the overview. */
  get shownPoints() {
    const block = this.events <= BLOCK ? this.blocks.get(0) : null;
    if (!block || block.count < this.events) return this.points;
    if (this.pointed?.version === block.version && this.pointed.points.length === block.count) return this.pointed.points;
    const requests = new Map(block.requests.map(([index, input, read, written]) => [index, input + read + written]));
    const points = Array.from({ length: block.count }, (_, i) => {
      const role = block.role[i], flags = block.flags[i];
      return [i, +(role === USER), +(role === AGENT), +(role === TOOL), +((flags & FAILED) !== 0 && role !== RESULT),
        +((flags & COMPACTION) !== 0), requests.get(i) ?? 0, block.time(i), block.thread[i]];
    });
    this.pointed = { version: block.version, points };
    return points;
  }

  /** @returns {string} what a thread is called: its name, with its number where several have the same */
  threadName(lane) {
    if (this.threadNames?.length !== this.threads.length) this.threadNames = numbered(this.threads.map((one) => one.name || one.id));
    return this.threadNames[lane - 1] ?? "";
  }

  /** The last blocks, in order: what tables of a whole session are made of, which say if it is longer. */
  lastBlocks() {
    const first = Math.max(0, this.blockCount - TABLED_BLOCKS);
    return Promise.all(Array.from({ length: this.blockCount - first }, (_, at) => this.fetch(first + at)));
  }

  get blockCount() {
    return Math.ceil(this.events / BLOCK);
  }

  indexOf(position) {
    return Math.floor(position / BLOCK);
  }

  block(index) {
    const block = this.blocks.get(index);
    if (block) { // the one that was used last is the last to go
      this.blocks.delete(index);
      this.blocks.set(index, block);
    }
    return block;
  }

  /** Fetch a block, once; the promise is fulfilled when it is there. */
  fetch(index) {
    if (this.blocks.has(index)) return Promise.resolve(this.blocks.get(index));
    if (index < 0 || index >= this.blockCount) return Promise.resolve(null);
    if (!this.asked.has(index)) {
      this.asked.set(index, this.load(index).finally(() => this.asked.delete(index)));
    }
    return this.asked.get(index);
  }

  async load(index) {
    const answer = await ask(sessionPath(this.session, "/outline"),
      { params: { from: index * BLOCK, incarnation: this.incarnation }, accept: "application/octet-stream" });
    const block = Block.decoded(await answer.arrayBuffer());
    const known = this.blocks.get(index);
    if (known && known.count >= block.count) return known; // live events have come meanwhile
    this.events = Math.max(this.events, block.from + block.count);
    this.keep(index, block);
    this.changed("block");
    return block;
  }

  keep(index, block) {
    this.blocks.set(index, block);
    while (this.blocks.size > BLOCKS_KEPT) {
      const oldest = [...this.blocks.keys()].find((one) => one !== this.blockCount - 1 && one !== index);
      this.blocks.delete(oldest);
    }
  }

  /** Add an event that has come live: what the server would say of it, as far as it can be known here. */
  add(position, facts) {
    const index = this.indexOf(position), at = position - index * BLOCK;
    let block = this.blocks.get(index);
    if (!block) {
      if (at !== 0) { this.events = Math.max(this.events, position + 1); return; }
      block = new Block(position, 0, facts.time || Date.now());
      this.keep(index, block);
    }
    if (at < block.count) return;
    if (block.count === 0 || !block.t0) block.t0 = facts.time || Date.now();
    block.count = at + 1;
    block.role[at] = facts.role;
    block.flags[at] = facts.flags;
    block.characters[at] = Math.min(65_535, facts.characters);
    block.at[at] = Math.max(0, facts.time - block.t0);
    block.key[at] = facts.key;
    block.name[at] = facts.name ? this.named(this.names, facts.name) : 0;
    block.thread[at] = facts.thread ? this.threadOf(facts.thread) : 0;
    if (facts.request) block.requests.push([at, ...facts.request]);
    if (facts.pair && facts.pair >= 0) this.join(facts.pair, position, facts.flags & FAILED);
    block.version++;
    this.events = Math.max(this.events, position + 1);
  }

  /** A result has found its call: both know the distance. */
  join(call, result, failed) {
    const first = this.blocks.get(this.indexOf(call)), second = this.blocks.get(this.indexOf(result));
    if (second) second.pair[result % BLOCK] = call - result;
    if (!first) return;
    first.pair[call % BLOCK] = result - call;
    first.flags[call % BLOCK] |= HAS_RESULT | (failed ? FAILED : 0);
    first.version++;
  }

  named(table, name) {
    const found = table.indexOf(name);
    return found < 0 ? table.push(name) : found + 1;
  }

  threadOf(id) {
    const found = this.threads.findIndex((one) => one.id === id);
    return found < 0 ? this.threads.push({ id, name: id.slice(-6), parent: null }) : found + 1;
  }
}

/** Give names that several have a number behind them. */
function numbered(names) {
  const many = new Map(), seen = new Map();
  for (const name of names) many.set(name, (many.get(name) ?? 0) + 1);
  return names.map((name) => {
    if (many.get(name) === 1) return name;
    seen.set(name, (seen.get(name) ?? 0) + 1);
    return `${name} ${seen.get(name)}`;
  });
}
