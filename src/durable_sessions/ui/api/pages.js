// The events themselves, 64 at a time by position; the last 48 pages are kept.
import { get, sessionPath } from "./client.js";

export const PAGE = 64;
const PAGES_KEPT = 48, CLIP = 16_384;

export class Pages {
  constructor(session, changed, incarnation) {
    Object.assign(this, { session, changed, incarnation, pages: new Map(), asked: new Map(), failed: new Map() });
  }

  /** @returns {object | undefined} the event at a position, if it is here */
  event(position) {
    return this.pages.get(Math.floor(position / PAGE))?.[position % PAGE];
  }

  /** Have the pages that hold these positions; fetches of others are given up. */
  want(positions) {
    const numbers = new Set(positions.map((position) => Math.floor(position / PAGE)));
    for (const [number, controller] of this.asked) if (!numbers.has(number)) controller.abort();
    for (const number of numbers) if (!this.asked.has(number)) this.load(number, positions);
  }

  async load(number, positions) {
    const known = this.pages.get(number);
    if (known && positions.every((one) => Math.floor(one / PAGE) !== number || known[one % PAGE])) {
      this.pages.delete(number); // the one that was used last is the last to go
      this.pages.set(number, known);
      return;
    }
    if ((this.failed.get(number) ?? 0) > Date.now()) return;
    const controller = new AbortController();
    this.asked.set(number, controller);
    try {
      const page = await get(sessionPath(this.session, "/events"), { from: number * PAGE, limit: PAGE, clip: CLIP, lens: true, incarnation: this.incarnation },
        { signal: controller.signal });
      const events = page.data;
      const late = this.pages.get(number);
      if (late) for (let at = events.length; at < late.length; at++) events[at] = late[at];
      // A page ends early if its events are large: the rest is fetched by itself.
      this.keep(number, events);
      if (events.length < PAGE && !page.up_to_date) await this.complete(number, events, controller);
      this.changed();
    } catch (error) {
      if (error.name !== "AbortError") this.failed.set(number, Date.now() + 3000);
    } finally {
      if (this.asked.get(number) === controller) this.asked.delete(number);
    }
  }

  async complete(number, events, controller) {
    while (events.length < PAGE) {
      const page = await get(sessionPath(this.session, "/events"),
        { from: number * PAGE + events.length, limit: PAGE - events.length, clip: CLIP, lens: true, incarnation: this.incarnation }, { signal: controller.signal });
      if (!page.data.length) return;
      events.push(...page.data);
    }
  }

  keep(number, events) {
    this.pages.delete(number);
    this.pages.set(number, events);
    while (this.pages.size > PAGES_KEPT) this.pages.delete(this.pages.keys().next().value);
  }

  /** Add an event that has come live. */
  add(position, event) {
    const number = Math.floor(position / PAGE);
    const events = this.pages.get(number) ?? [];
    if (event.raw_format) event = undefined; // what an adapter's event means comes with a read only
    events[position % PAGE] = event;
    this.keep(number, events);
  }

  /** Forget an event, so that it is read again: it was erased, or is wanted whole. */
  replace(position, event) {
    const events = this.pages.get(Math.floor(position / PAGE));
    if (events) events[position % PAGE] = event;
  }
}
