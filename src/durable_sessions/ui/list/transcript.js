// A session being read: its outline, its events, what is selected and opened, and the list that shows it.
import { render } from "preact";
import { html } from "../parts/html.js";
import { get, sessionPath } from "../api/client.js";
import { COMPACTION, FAILED, Outline, RESULT, TOOL, USER } from "../api/outline.js";
import { Pages } from "../api/pages.js";
import { ROLES, entryOf } from "../reading/entry.js";
import { factsOf } from "./facts.js";
import { Row, Skeleton, ruleOf } from "./row.js";
import { Rows } from "./rows.js";
import { Scroller } from "./scroller.js";

const BLOCK = 4096, LANES = 6, CALLS_KEPT = 2000;
/** @returns {number} the lane that a thread is drawn in: six have a colour of their own, the rest one together */
export const laneOf = (thread) => Math.min(thread, LANES + 1);
const entries = new WeakMap();

export function entryFor(event) {
  if (!entries.has(event)) entries.set(event, entryOf(event));
  return entries.get(event);
}

export class Transcript {
  /** `hooks`: changed() when figures have changed, moved() when the view has, address(position), selected(position). */
  constructor(session, info, hooks) {
    Object.assign(this, { session, info, hooks, opened: new Set(), selected: null, calls: new Map(), drawn: new WeakMap() });
    this.words = [];
    this.filter = { tools: true, thinking: true, quiet: false, only: null };
    // Another session that gets this id is not read as if it were this one.
    this.outline = new Outline(session, (what) => this.arrived(what), info.incarnation);
    this.pages = new Pages(session, () => this.repaint(), info.incarnation);
    this.rows = new Rows(this.outline, this.filter);
    this.forkAt = info.forked_from?.position ?? -1;
    this.act = {
      clicked: (event, position) => this.clicked(event, position),
      address: (position) => hooks.address(position),
      whole: (position) => this.readWhole(position),
      unfold: (position) => this.unfold(position),
    };
  }

  async open(view, target) {
    await this.outline.open();
    const count = this.outline.events;
    const position = target === null ? Math.max(0, count - 1) : Math.min(target, Math.max(0, count - 1));
    const index = this.outline.indexOf(position);
    if (count) await Promise.all([this.outline.fetch(index), this.firstPage(position, target === null)]);
    if (this.closed) return;
    this.scroller = new Scroller(view, this.rows, {
      draw: (element, item) => this.draw(element, item),
      drop: (element) => render(null, element),
      shown: (items) => this.shown(items),
      moved: () => this.hooks.moved(),
    });
    if (!count) return;
    if (target === null) this.scroller.toEnd();
    else await this.show(position);
  }

  /** Ask for the first events while the outline is still on its way. */
  firstPage(position, atEnd) {
    this.pages.want(atEnd ? [position, Math.max(0, position - 64)] : [position, position + 40]);
    return Promise.resolve();
  }

  close() {
    this.closed = this.outline.closed = true;
    this.scroller?.close();
    clearTimeout(this.wanting);
  }

  // What is drawn ------------------------------------------------------------------------

  repaint() {
    this.scroller?.paint();
  }

  arrived(what) {
    if (this.closed) return;
    if (what === "block") this.calls.clear();
    this.repaint();
    this.hooks.changed();
  }

  refilter(filter) {
    const place = this.scroller?.anchor;
    Object.assign(this.filter, filter);
    this.rows.reset({ measured: false });
    if (place && this.scroller) {
      const item = this.rows.holding(this.selected ?? place.item.position);
      if (item) { this.scroller.sticks = false; this.scroller.anchor = { item, y: place.y }; this.scroller.reanchor(); }
      this.repaint();
      this.scroller.settle();
    }
  }

  about(item) {
    const block = this.outline.block(item.block), i = item.index;
    const lane = block.thread[i];
    const rank = this.rows.rank(item), before = rank > 0 ? this.rows.of(item.block).starts[rank - 1] : -1;
    return { position: item.position, bytes: block.bytes[i], flags: block.flags[i], time: block.time(i),
      name: block.name[i] ? this.outline.names[block.name[i] - 1] : "", role: ROLES[block.role[i]],
      lane: laneOf(lane), thread: lane ? this.outline.threadName(lane) : "", more: Math.max(0, lane - LANES),
      names: lane !== 0 && (before < 0 || block.thread[before] !== lane), before, pair: block.pair[i] };
  }

  draw(element, item) {
    const block = this.outline.block(item.block);
    if (!block) return;
    const event = this.pages.event(item.position), pair = block.role[item.index] === TOOL ? block.pair[item.index] : 0;
    const resultEvent = pair ? this.pages.event(item.position + pair) : null;
    const open = this.opened.has(item.position), isSelected = this.selected === item.position;
    const state = [event, resultEvent, open, isSelected, item.span, block.flags[item.index], this.drawing];
    const known = this.drawn.get(element);
    if (known && known.length === state.length && known.every((one, at) => one === state[at])) return;
    this.drawn.set(element, state);
    const about = this.about(item);
    const beforeAt = about.before < 0 ? 0 : block.time(about.before);
    const rule = ruleOf(beforeAt, about.time, { isFork: item.position === this.forkAt,
      isCompaction: (about.flags & COMPACTION) !== 0 });
    element.classList.toggle("selected", isSelected);
    element.dataset.position = item.position;
    element.setAttribute("aria-posinset", item.position + 1);
    element.setAttribute("aria-setsize", this.outline.events);
    element.tabIndex = isSelected ? 0 : -1;
    if (!event || (pair && !resultEvent)) {
      element.setAttribute("aria-busy", "true");
      if (!event) return render(html`<${Skeleton} about=${about} rule=${rule} />`, element);
    } else element.removeAttribute("aria-busy");
    const entry = { ...entryFor(event) };
    const result = resultEvent ? entryFor(resultEvent) : null;
    if (result?.failed || (pair && about.flags & FAILED)) entry.failed = true;
    about.clipped = Boolean(event.clipped) && !open;
    let failures = 0;
    for (let k = item.index, left = item.span; left > 0 && k < block.count; k++) {
      if (block.role[k] === TOOL) { left--; failures += block.flags[k] & FAILED ? 1 : 0; }
    }
    const isLive = !["closed", "archived"].includes(this.info.lifecycle) && !this.info.imported;
    render(html`<${Row} entry=${entry} event=${event} result=${pair ? result : null} resultEvent=${resultEvent} about=${about}
      rule=${rule} open=${open} span=${item.span} failures=${item.span > 1 ? failures : 0} isLive=${isLive} act=${this.act} />`, element);
  }

  /** Fetch what is seen, and the outlines next to it; at once unless the reader flies past. */
  shown(items) {
    clearTimeout(this.wanting);
    const want = () => {
      const positions = [];
      for (const item of items) {
        if (item.isGap) { this.outline.fetch(item.block).catch(() => {}); continue; }
        const block = this.outline.block(item.block);
        positions.push(item.position);
        if (block && block.role[item.index] === TOOL && block.pair[item.index]) {
          positions.push(item.position + block.pair[item.index]);
        }
      }
      if (positions.length) this.pages.want(positions);
    };
    if ((this.scroller?.speed ?? 0) < 0.6) want();
    else this.wanting = setTimeout(want, 60);
    if (this.scroller) this.scroller.speed = 0;
    this.hooks.shown?.(items);
  }

  // What the reader does -----------------------------------------------------------------

  /** Go to an event, wherever it is: its row is at 30 % of the height. */
  async show(position, { open = false } = {}) {
    await this.outline.fetch(this.outline.indexOf(position)).catch(() => null);
    if (this.closed || !this.scroller) return;
    let item = this.rows.holding(position);
    if (item?.isGap) { await this.outline.fetch(item.block); item = this.rows.holding(position); }
    if (!item) return;
    if (open) this.opened.add(item.position);
    this.select(item.position, { quiet: true });
    this.scroller.go(item);
  }

  clicked(event, position) {
    if (event.target.closest("a, button, input, summary") || String(getSelection())) return;
    this.toggle(position);
  }

  select(position, { quiet = false } = {}) {
    if (this.selected === position) return;
    this.selected = position;
    this.repaint();
    this.hooks.selected(position, quiet);
  }

  toggle(position) {
    this.scroller.hold(position);
    if (!this.opened.delete(position)) this.opened.add(position);
    this.rows.forget(position);
    this.selected = position;
    this.repaint();
    this.scroller.settle();
    this.hooks.selected(position, false);
  }

  unfold(position) {
    this.scroller.hold(position);
    this.rows.unfolded.add(position);
    for (let i = position; i < position + BLOCK; i++) this.rows.unfolded.add(i);
    this.rows.reset({ measured: false });
    this.opened.delete(position);
    this.rows.forget(position);
    this.repaint();
  }

  async readWhole(position) {
    const event = this.pages.event(position), pair = this.outline.block(this.outline.indexOf(position))?.pair[position % BLOCK];
    const read = async (at, one) => one?.clipped
      && this.pages.replace(at, await get(sessionPath(this.session, `/events/${encodeURIComponent(one.id)}`), { lens: true, incarnation: this.info.incarnation }));
    await Promise.all([read(position, event), pair ? read(position + pair, this.pages.event(position + pair)) : null]);
    this.scroller.hold(position);
    this.rows.forget(position);
    this.repaint();
  }

  move(step) {
    const place = this.scroller?.anchor;
    if (!place) return;
    const from = this.selected === null ? null : this.rows.holding(this.selected);
    const item = from ? (step > 0 ? this.rows.next(from) : this.rows.previous(from)) : place.item;
    if (!item || item.isGap) return item && this.outline.fetch(item.block);
    this.select(item.position);
    this.scroller.reveal(item);
    return undefined;
  }

  /** Go to the next row, in this direction, for which something is true; `many` says how many a block has. */
  async jump(step, test, many) {
    let from = this.selected ?? this.scroller?.anchor?.item.position;
    if (from === undefined) return false;
    for (let number = this.outline.indexOf(from); number >= 0 && number < this.outline.blockCount; number += step) {
      const summary = this.outline.summaries[number];
      if (!this.outline.blocks.has(number) && summary && !many(summary)) continue;
      const block = await this.outline.fetch(number);
      const made = this.rows.of(number);
      const ordered = step > 0 ? made.starts : [...made.starts].reverse();
      const found = ordered.find((i) => (block.from + i - from) * step > 0 && test(block, i));
      if (found === undefined) continue;
      await this.show(block.from + found);
      return true;
    }
    return false;
  }

  nextFailure(step) {
    return this.jump(step, (block, i) => (block.flags[i] & FAILED) !== 0, (summary) => summary.failed);
  }

  nextPrompt(step) {
    return this.jump(step, (block, i) => block.role[i] === USER, (summary) => summary.roles[USER]);
  }

  // Live ---------------------------------------------------------------------------------

  /** Take events that have come: they are in the list at once, and joined with their calls. */
  add(first, events) {
    let position = first;
    for (const event of events) {
      if (position >= this.outline.events || !this.outline.blocks.has(this.outline.indexOf(position))) {
        const facts = factsOf(event);
        if (facts.role === TOOL && typeof event.id === "string") {
          this.calls.set(event.id, position);
          if (this.calls.size > CALLS_KEPT) this.calls.delete(this.calls.keys().next().value);
        }
        const call = facts.role === RESULT && facts.call ? this.callAt(facts.call) : null;
        this.outline.add(position, { ...facts, pair: 0 });
        if (call !== null) {
          this.outline.join(call, position, facts.flags & FAILED);
          this.rows.forget(call);
        }
      }
      this.pages.add(position, event);
      position++;
    }
    this.scroller ? this.repaint() : null;
    if (this.scroller && !this.scroller.anchor) this.scroller.toEnd();
  }

  callAt(id) {
    if (this.calls.has(id)) return this.calls.get(id);
    for (const [number, events] of [...this.pages.pages].reverse()) {
      const at = events.findIndex((event) => event?.id === id);
      if (at >= 0) return number * 64 + at;
    }
    return null;
  }
}
