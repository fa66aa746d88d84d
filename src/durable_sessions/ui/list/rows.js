// The rows of a session: which events are one, and how high each is. Known from the outline alone, so at any length.
import { AGENT, COMPACTION, FAILED, QUIET, RESULT, THINKING, TOOL, USER } from "../api/outline.js";

const BLOCK = 4096;
export const ROW = 28;
const LINE = 23, LINES_MAX = 12, COLUMNS = 88;

/** @typedef {{block: number, index: number, position: number, span: number, isGap: boolean}} Item */

export class Rows {
  /** `filter` says what is shown: {tools, thinking, quiet, only}. `unfolded` has the first events of opened runs. */
  constructor(outline, filter) {
    Object.assign(this, { outline, filter, unfolded: new Set(), built: new Map(), heights: new Map() });
  }

  /** Forget what was built and measured: something else is shown, or in another width. */
  reset({ measured = true } = {}) {
    this.built.clear();
    if (measured) this.heights.clear();
  }

  /** The rows of a block, null if it is not here yet. */
  of(number) {
    const block = this.outline.block(number);
    if (!block) return null;
    let made = this.built.get(number);
    if (!made || made.version !== block.version || made.count !== block.count) {
      made = this.build(number, block);
      this.built.set(number, made);
    }
    return made;
  }

  build(number, block) {
    const starts = [], spans = [];
    for (let i = 0; i < block.count; i++) {
      if (!this.isRow(block, i)) continue;
      const last = starts.length - 1;
      // Equal calls in a row are one row; a failure inside is counted on it.
      if (last >= 0 && block.role[i] === TOOL && block.key[i] === block.key[starts[last]] && block.key[i]
        && block.role[starts[last]] === TOOL && block.thread[i] === block.thread[starts[last]]
        && !this.unfolded.has(block.from + starts[last])) {
        spans[last]++;
        continue;
      }
      starts.push(i);
      spans.push(1);
    }
    if (!this.heights.has(number)) this.heights.set(number, new Float32Array(BLOCK));
    return { version: block.version, count: block.count, block, starts, spans, tops: null };
  }

  isRow(block, i) {
    const role = block.role[i], flags = block.flags[i], { tools, thinking, quiet, only } = this.filter;
    if (role === RESULT && block.pair[i] !== 0) return false;
    if (only) {
      const [kind, value] = only;
      if (kind === "failed") return (flags & FAILED) !== 0;
      if (kind === "user") return role === USER;
      if (kind === "tool") return role === TOOL && this.outline.names[block.name[i] - 1] === value;
      if (kind === "range") return block.from + i >= value[0] && block.from + i <= value[1] && !(flags & QUIET);
      if (kind === "thread") return (this.outline.threads[block.thread[i] - 1]?.id ?? "") === value && !(flags & QUIET);
    }
    if (flags & QUIET) return quiet;
    if (flags & FAILED) return true; // failures are never hidden
    if (role === TOOL || role === RESULT) return tools;
    return role !== THINKING || thinking;
  }

  guess(block, i) {
    const role = block.role[i];
    if (role !== USER && role !== AGENT) return block.flags[i] & COMPACTION ? ROW + 16 : ROW;
    const lines = Math.ceil(block.characters[i] / COLUMNS);
    return Math.min(LINES_MAX, Math.max(1, lines)) * LINE + 14;
  }

  /** How high a block is that is not here: by the counts of its rows, else like the mean of those that are. */
  estimate(number) {
    const summary = this.outline.summaries[number], { tools, thinking, quiet, only } = this.filter;
    const events = Math.min(BLOCK, this.outline.events - number * BLOCK);
    if (!summary) return Math.max(ROW, events * this.meanHeight());
    const roles = summary.roles;
    let height = 0;
    if (only) height = ROW * (only[0] === "failed" ? summary.failed : only[0] === "user" ? roles[USER] : events / 8);
    else {
      const message = LINE * 3;
      roles.forEach((many, role) => {
        const shown = role === TOOL || role === RESULT ? tools : role !== THINKING || thinking;
        if (shown) height += many * (role === USER || role === AGENT ? message : ROW);
      });
      if (quiet) height += summary.quiet * ROW;
    }
    return Math.max(ROW, height);
  }

  meanHeight() {
    let height = 0, events = 0;
    for (const number of this.built.keys()) {
      const made = this.built.get(number);
      height += this.blockHeight(number);
      events += made.count;
    }
    return events ? height / events : ROW / 2;
  }

  height(item) {
    if (item.isGap) return this.estimate(item.block);
    const measured = this.heights.get(item.block)?.[item.index];
    return measured || this.guess(this.outline.block(item.block), item.index);
  }

  /** Note how high a row is; say whether that is new. */
  measured(item, height) {
    if (item.isGap) return false;
    const heights = this.heights.get(item.block);
    if (!heights || Math.abs(heights[item.index] - height) < 0.01) return false;
    heights[item.index] = height;
    const made = this.built.get(item.block);
    if (made) made.tops = null;
    return true;
  }

  forget(position) {
    const heights = this.heights.get(Math.floor(position / BLOCK));
    if (heights) heights[position % BLOCK] = 0;
    const made = this.built.get(Math.floor(position / BLOCK));
    if (made) made.tops = null;
  }

  tops(number) {
    const made = this.of(number);
    if (!made.tops) {
      const heights = this.heights.get(number), tops = new Float64Array(made.starts.length + 1);
      for (let k = 0; k < made.starts.length; k++) {
        const i = made.starts[k];
        tops[k + 1] = tops[k] + (heights[i] || this.guess(made.block, i));
      }
      made.tops = tops;
    }
    return made.tops;
  }

  blockHeight(number) {
    if (!this.outline.blocks.has(number)) return this.estimate(number);
    const tops = this.tops(number);
    return tops[tops.length - 1];
  }

  total() {
    let sum = 0;
    for (let number = 0; number < this.outline.blockCount; number++) sum += this.blockHeight(number);
    return sum;
  }

  top(item) {
    let sum = 0;
    for (let number = 0; number < item.block; number++) sum += this.blockHeight(number);
    return item.isGap ? sum : sum + this.tops(item.block)[this.rank(item)];
  }

  rank(item) {
    const { starts } = this.of(item.block);
    let low = 0, high = starts.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (starts[middle] < item.index) low = middle + 1; else high = middle;
    }
    return low;
  }

  item(number, rank) {
    const made = this.of(number);
    const index = made.starts[rank];
    return { block: number, index, position: number * BLOCK + index, span: made.spans[rank], isGap: false };
  }

  gap(number) {
    return { block: number, index: -1, position: number * BLOCK, span: 0, isGap: true };
  }

  edge(number, atEnd) {
    const made = this.of(number);
    if (!made) return this.gap(number);
    return made.starts.length ? this.item(number, atEnd ? made.starts.length - 1 : 0) : null;
  }

  first() {
    return this.seek(0, 1);
  }

  last() {
    return this.seek(this.outline.blockCount - 1, -1);
  }

  seek(number, step) {
    for (let n = number; n >= 0 && n < this.outline.blockCount; n += step) {
      const found = this.edge(n, step < 0);
      if (found) return found;
    }
    return null;
  }

  next(item) {
    if (!item.isGap) {
      const made = this.of(item.block), rank = this.rank(item) + 1;
      if (made && rank < made.starts.length) return this.item(item.block, rank);
    }
    return this.seek(item.block + 1, 1);
  }

  previous(item) {
    if (!item.isGap) {
      const rank = this.rank(item) - 1;
      if (rank >= 0) return this.item(item.block, rank);
    }
    return this.seek(item.block - 1, -1);
  }

  /** The row that shows an event, or the nearest one behind it, or before it. */
  holding(position) {
    const number = Math.floor(position / BLOCK), made = this.of(number);
    if (!made) return number < this.outline.blockCount ? this.gap(number) : this.last();
    let at = position % BLOCK;
    const { block } = made;
    if (block.role[at] === RESULT && block.pair[at] !== 0) { // its call shows it
      const call = position + block.pair[at];
      if (Math.floor(call / BLOCK) !== number) return this.holding(call);
      at = call % BLOCK;
    }
    const rank = this.rank({ block: number, index: at });
    if (made.starts[rank] === at) return this.item(number, rank);
    // Inside of a folded run, the row of the run.
    if (rank > 0 && made.spans[rank - 1] > 1 && block.role[at] === TOOL && block.key[at] === block.key[made.starts[rank - 1]]) {
      return this.item(number, rank - 1);
    }
    if (rank < made.starts.length) return this.item(number, rank);
    return this.seek(number + 1, 1) ?? this.seek(number, -1);
  }

  /** The row at so many pixels from the top, and how far into it that is. */
  at(y) {
    let number = 0, rest = Math.max(0, y);
    const blocks = this.outline.blockCount;
    while (number < blocks - 1 && rest >= this.blockHeight(number)) rest -= this.blockHeight(number++);
    const made = this.of(number);
    if (!made) return { item: this.gap(number), into: Math.min(rest, this.estimate(number)) };
    if (!made.starts.length) return { item: this.seek(number, 1) ?? this.seek(number, -1), into: 0 };
    const tops = this.tops(number);
    let low = 0, high = made.starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (tops[middle] <= rest) low = middle; else high = middle - 1;
    }
    return { item: this.item(number, low), into: Math.min(rest - tops[low], tops[low + 1] - tops[low]) };
  }

  /** Rows that were counted, and whether all blocks are known. */
  count() {
    let rows = 0, known = true;
    for (let number = 0; number < this.outline.blockCount; number++) {
      const made = this.outline.blocks.has(number) ? this.of(number) : null;
      if (made) rows += made.starts.length;
      else known = false;
    }
    return { rows, known };
  }
}
