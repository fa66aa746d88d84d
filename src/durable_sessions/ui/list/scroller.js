// A list of any length in which nothing moves by itself.
//
// The truth is the anchor: a row, and where its top is in the view. The scrollbar follows it. Rows are laid out by the
// browser in a window around the anchor, and the window is placed so that the anchor stays where it is, whatever is
// fetched, measured, opened or added. The reader moves the anchor, by exactly as many pixels as the list is scrolled.

const SPACER_MAX = 8_000_000; // browsers cap the height of an element
const IDLE_MS = 120;

export class Scroller {
  /**
   * @param {HTMLElement} view scrolls; it has an opaque background, else it is painted on the main thread
   * @param {object} rows geometry: first, last, next, previous, holding, at, top, height, measured, total
   * @param {{draw: Function, drop: Function, shown: Function, moved: Function}} hooks
   */
  constructor(view, rows, hooks) {
    Object.assign(this, { view, rows, hooks, anchor: null, top: 0, sticks: false, elements: new Map(), items: [] });
    this.spacer = view.appendChild(document.createElement("div"));
    this.spacer.className = "spacer";
    this.window = view.appendChild(document.createElement("div"));
    this.window.className = "window";
    this.height = view.clientHeight;
    this.width = view.clientWidth;
    view.addEventListener("scroll", this.onScroll = () => this.scrolled(), { passive: true });
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(view);
    this.observer.observe(this.window);
  }

  close() {
    this.observer.disconnect();
    this.view.removeEventListener("scroll", this.onScroll);
    clearTimeout(this.idle);
    for (const element of this.elements.values()) this.hooks.drop(element);
    this.elements.clear();
    this.spacer.remove();
    this.window.remove();
  }

  // Where the reader is ------------------------------------------------------------------

  /** Go to a row: its top is at so many pixels from the top of the view, and stays there. */
  go(item, y = Math.round(this.height * 0.3)) {
    if (!item) return;
    this.sticks = false;
    this.anchor = { item, y };
    this.paint();
    this.settle();
  }

  toEnd() {
    const item = this.rows.last();
    if (!item) return;
    this.anchor = { item, y: this.height - this.rows.height(item) };
    this.sticks = true;
    this.paint();
    this.settle();
  }

  toStart() {
    this.go(this.rows.first(), 0);
  }

  get atEnd() {
    const last = this.rows.last(), shown = this.items.at(-1);
    if (!last || !shown || shown.position !== last.position || shown.isGap) return false;
    return this.bottom <= this.height + 2;
  }

  /** Where in the view a row is, if it is drawn: its top and its height. */
  place(position) {
    let y = this.start;
    for (const item of this.items ?? []) {
      const height = this.rows.height(item);
      if (item.position === position && !item.isGap) return { y, height };
      y += height;
    }
    return null;
  }

  /** Keep this row where it is while something about it changes; nothing above it will move. */
  hold(position) {
    const place = this.place(position);
    if (place) this.anchor = { item: this.items.find((item) => item.position === position), y: place.y };
    this.sticks = false;
  }

  /** Bring a row into view, if it is not, by moving as little as possible. */
  reveal(item) {
    const place = this.place(item.position);
    if (!place) return this.go(item);
    const margin = Math.min(40, this.height / 8);
    let y = place.y;
    if (y < margin) y = margin;
    else if (y + place.height > this.height - margin) y = Math.max(margin, this.height - margin - place.height);
    if (y !== place.y) { this.anchor = { item, y }; this.sticks = false; this.paint(); this.settle(); }
  }

  scrolled() {
    const now = this.view.scrollTop, delta = now - this.top;
    this.top = now;
    if (!delta || !this.anchor) return;
    if (Math.abs(delta) > 3 * this.height) this.jump(now);
    else {
      this.anchor = { item: this.anchor.item, y: this.anchor.y - delta };
      if (delta < 0) this.sticks = false;
    }
    this.reanchor();
    this.speed = Math.abs(delta) / this.height;
    this.paint();
    if (this.atEnd && delta > 0) this.sticks = true;
    const end = this.view.scrollHeight - this.height;
    // At an end of the scrollbar that is not the end of the list, the reader must be able to go on.
    if (now <= 0 || now >= end - 1) this.sync();
    this.settle();
    this.hooks.moved();
  }

  jump(scrollTop) {
    const total = this.rows.total(), room = Math.max(1, this.spacerHeight - this.height);
    const y = this.spacerHeight < total ? (scrollTop / room) * (total - this.height) : scrollTop;
    const { item, into } = this.rows.at(y);
    this.anchor = { item, y: -into };
    this.sticks = false;
  }

  /** Take the first visible row as the anchor. */
  reanchor() {
    let { item, y } = this.anchor;
    for (let height = this.rows.height(item); y + height <= 0; height = this.rows.height(item)) {
      const next = this.rows.next(item);
      if (!next) break;
      y += height;
      item = next;
    }
    while (y > 0) {
      const previous = this.rows.previous(item);
      if (!previous) break;
      item = previous;
      y -= this.rows.height(item);
    }
    this.anchor = { item, y };
  }

  // Drawing ------------------------------------------------------------------------------

  /** Something has changed: draw again, at once, with the anchor where it is. */
  paint() {
    if (!this.anchor || !this.height) return;
    if (this.anchor.item.isGap) this.enter();
    for (let round = 0; round < 4; round++) {
      this.gather();
      this.reconcile();
      if (!this.measure()) break;
    }
    if (this.sticks) this.stickToEnd();
    this.limit();
    this.put();
    this.hooks.shown(this.items);
  }

  /** The block of a gap may have come: go on at the same part of it. */
  enter() {
    const { item, y } = this.anchor;
    if (!this.rows.of(item.block)) return;
    const part = Math.min(1, Math.max(0, -y / this.rows.estimate(item.block)));
    const top = this.rows.top({ ...item, isGap: true });
    const found = this.rows.at(top + part * this.rows.blockHeight(item.block));
    if (found.item) this.anchor = { item: found.item, y: Math.min(y, 0) < 0 ? -found.into : y };
  }

  gather() {
    const over = Math.round(this.height * 0.5), { item, y } = this.anchor;
    const before = [], behind = [];
    let above = 0, below = this.rows.height(item);
    for (let one = this.rows.previous(item); one && above < y + over; one = this.rows.previous(one)) {
      before.push(one);
      above += this.rows.height(one);
    }
    for (let one = this.rows.next(item); one && below < this.height - y + over; one = this.rows.next(one)) {
      behind.push(one);
      below += this.rows.height(one);
    }
    this.items = [...before.reverse(), item, ...behind];
  }

  reconcile() {
    const wanted = new Map(this.items.map((item) => [keyOf(item), item]));
    for (const [key, element] of this.elements) {
      if (wanted.has(key)) continue;
      this.hooks.drop(element);
      element.remove();
      this.elements.delete(key);
    }
    let at = this.window.firstChild;
    for (const [key, item] of wanted) {
      let element = this.elements.get(key);
      if (!element) {
        element = document.createElement(item.isGap ? "div" : "article");
        element.className = item.isGap ? "gap" : "row";
        this.elements.set(key, element);
      }
      if (element === at) at = at.nextSibling;
      else this.window.insertBefore(element, at);
      if (item.isGap) element.style.height = `${this.rows.estimate(item.block)}px`;
      else this.hooks.draw(element, item);
    }
  }

  /** Measure what is drawn; say whether more rows are needed than were thought. */
  measure() {
    let above = 0, below = 0, isNew = false, isBelow = false;
    const anchorKey = keyOf(this.anchor.item);
    for (const item of this.items) {
      const key = keyOf(item);
      const height = this.elements.get(key).getBoundingClientRect().height;
      isNew = this.rows.measured(item, height) || isNew;
      isBelow ||= key === anchorKey;
      if (isBelow) below += height; else above += height;
    }
    this.above = above;
    this.below = below;
    if (!isNew) return false;
    const first = this.rows.previous(this.items[0]), last = this.rows.next(this.items.at(-1));
    return (first && above < this.anchor.y) || (last && below < this.height - this.anchor.y);
  }

  stickToEnd() {
    const last = this.rows.last();
    if (!last) return;
    if (last.position !== this.anchor.item.position) {
      this.anchor = { item: last, y: this.height - this.rows.height(last) };
      this.gather();
      this.reconcile();
      this.measure();
    }
    this.anchor.y = this.height - this.rows.height(last);
  }

  /** Neither end of the list is inside of the view, if the list is longer than it. */
  limit() {
    const isFirst = !this.rows.previous(this.items[0]), isLast = !this.rows.next(this.items.at(-1));
    if (isLast && this.anchor.y + this.below < this.height) this.anchor.y = this.height - this.below;
    if (isFirst && this.anchor.y - this.above > 0) this.anchor.y = this.above;
  }

  put() {
    this.start = this.anchor.y - this.above;
    this.bottom = this.anchor.y + this.below;
    this.window.style.top = `${this.top + this.start}px`;
  }

  // The scrollbar ------------------------------------------------------------------------

  get spacerHeight() {
    return Math.min(SPACER_MAX, Math.max(this.height, Math.ceil(this.rows.total())));
  }

  settle() {
    clearTimeout(this.idle);
    this.idle = setTimeout(() => this.sync(), IDLE_MS);
  }

  /** Put the scrollbar where the anchor is. What is drawn moves with it, so that nothing is seen to move. */
  sync() {
    if (!this.anchor) return;
    const total = this.rows.total(), height = this.spacerHeight;
    this.spacer.style.height = `${height}px`;
    const y = this.rows.top(this.anchor.item) - this.anchor.y;
    const scaled = height < total ? (y / Math.max(1, total - this.height)) * (height - this.height) : y;
    const wanted = Math.max(0, Math.round(scaled));
    if (Math.abs(wanted - this.view.scrollTop) < 1) return;
    this.view.scrollTop = wanted;
    this.top = this.view.scrollTop;
    this.put();
  }

  resized() {
    const width = this.view.clientWidth, height = this.view.clientHeight;
    const isNew = width !== this.width || height !== this.height;
    if (width !== this.width) this.rows.reset();
    this.width = width;
    this.height = height;
    if (!this.anchor) return;
    if (isNew) this.settle();
    if (isNew || this.hasGrown()) this.paint();
  }

  /** Say whether something drawn is higher or lower than it was: a picture has come. */
  hasGrown() {
    return this.items.some((item) => !item.isGap
      && Math.abs(this.elements.get(keyOf(item))?.getBoundingClientRect().height - this.rows.height(item)) > 0.01);
  }
}

const keyOf = (item) => (item.isGap ? `gap ${item.block}` : item.position);
