// Two sessions side by side: their steps behind what they share, aligned thread by thread, with equal runs folded.
import { get, sessionPath } from "../api/client.js";
import { FAILED, Outline, QUIET, RESULT, TOOL } from "../api/outline.js";
import { aligned } from "../reading/diff.js";

export const STEPS_MAX = 4000;
const BLOCK = 4096, CLIP = 4096, TOGETHER = 64, EVENTS_KEPT = 4000, AROUND = 2;

/** The steps of a session from a position on: what is a row, with what it is, and the key by which it is compared. */
export async function stepsOf(id, from, until) {
  const outline = new Outline(id, () => {});
  await outline.open();
  const found = [], end = Math.min(until ?? outline.events, outline.events);
  for (let number = Math.floor(from / BLOCK); number * BLOCK < end && found.length < STEPS_MAX; number++) {
    const block = await outline.fetch(number);
    for (let i = 0; i < block.count && found.length < STEPS_MAX; i++) {
      const position = block.from + i;
      if (position < from || position >= end || block.flags[i] & QUIET || (block.role[i] === RESULT && block.pair[i])) continue;
      found.push({ position, kind: `${block.role[i]} ${block.name[i] ? outline.names[block.name[i] - 1] : ""}`, key: `${block.role[i]} ${block.key[i]}`,
        failed: (block.flags[i] & FAILED) !== 0, pair: block.role[i] === TOOL ? block.pair[i] : 0, thread: block.thread[i] ? outline.threadName(block.thread[i]) : "" });
    }
  }
  outline.closed = true;
  return { found, isAll: found.length < STEPS_MAX };
}

/**
 * Rows of two columns. Threads are compared with those of the same name, and steps that differ stand beside each other
 * only if they are of one kind. Rows that differ are numbered from 0.
 */
export function rowsOf(a, b) {
  const threads = [...new Set([...a, ...b].map((one) => one.thread))].sort((x, y) => (x === "" ? -1 : y === "" ? 1 : 0));
  const rows = [];
  let isAligned = true, differences = 0;
  for (const name of threads) {
    const of = (steps) => steps.filter((one) => one.thread === name);
    const pairs = beside(of(a), of(b));
    if (threads.length > 1) rows.push({ sign: "thread", name });
    if (pairs === null) isAligned = false;
    rows.push(...(pairs ?? [...of(a).map((one) => [one, null]), ...of(b).map((one) => [null, one])])
      .map(([one, other]) => ({ one, other, sign: one && other && one.key === other.key && one.failed === other.failed ? "same" : "differs" })));
  }
  for (const row of rows) if (row.sign === "differs") row.number = differences++;
  return { rows, isAligned, differences };
}

function beside(a, b) {
  const equal = aligned(a, b, 2500, (x, y) => x.key === y.key);
  return equal && filled(a, b, equal, (left, right) => {
    const alike = aligned(left, right, 2500, (x, y) => x.kind === y.kind) ?? [];
    return filled(left, right, alike, (ones, others) => [...ones.map((one) => [one, null]), ...others.map((other) => [null, other])]);
  });
}

/** Pairs of two lists, with what `between` makes of the parts without one. */
function filled(a, b, pairs, between) {
  const rows = [];
  let i = 0, j = 0;
  for (const [x, y] of [...pairs, [a.length, b.length]]) {
    if (i < x || j < y) rows.push(...between(a.slice(i, x), b.slice(j, y)));
    if (x < a.length) rows.push([a[x], b[y]]);
    i = x + 1;
    j = y + 1;
  }
  return rows;
}

/** Rows with long runs of equal steps as one row each; `opened` has the first rows of those that are shown whole. */
export function folded(rows, opened, hidesAll) {
  const around = hidesAll ? 0 : AROUND, items = [];
  for (let at = 0; at < rows.length;) {
    let end = at;
    while (end < rows.length && rows[end].sign === "same") end++;
    if (end === at) { items.push(rows[at++]); continue; }
    const before = at === 0 ? 0 : around, behind = end === rows.length ? 0 : around, hidden = end - at - before - behind;
    if (hidden < (hidesAll ? 1 : AROUND) || opened.has(rows[at])) items.push(...rows.slice(at, end));
    else items.push(...rows.slice(at, at + before), { sign: "fold", first: rows[at], many: hidden }, ...rows.slice(end - behind, end));
    at = end;
  }
  return items;
}

/** The events of what is drawn: those that lie near each other come with one request. Null is one that cannot be read. */
export class NearEvents {
  constructor(session, changed) {
    Object.assign(this, { session, changed, events: new Map(), asked: new Set() });
  }

  want(positions) {
    const missing = [...new Set(positions)].filter((one) => !this.events.has(one) && !this.asked.has(one)).sort((x, y) => x - y);
    for (let at = 0; at < missing.length;) {
      const end = missing.findIndex((one) => one >= missing[at] + TOGETHER), near = missing.slice(at, end < 0 ? undefined : end);
      this.load(near);
      at += near.length;
    }
  }

  async load(positions) {
    const from = positions[0];
    for (const one of positions) this.asked.add(one);
    const found = await get(sessionPath(this.session, "/events"), { from, limit: positions.at(-1) - from + 1, clip: CLIP, lens: true })
      .then((page) => page.data, () => []);
    for (const one of positions) {
      this.asked.delete(one);
      // A page ends early if its events are large: the rest is asked for by itself.
      if (one - from < found.length || !found.length) this.events.set(one, found[one - from] ?? null);
    }
    while (this.events.size > EVENTS_KEPT) this.events.delete(this.events.keys().next().value);
    this.changed();
  }
}
