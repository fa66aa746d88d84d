// Edits as lines that went and lines that came, and the alignment of two lists.
import { clean, linesOf } from "./text.js";

const COMPARED_LINES_MAX = 2000;
const COMPARED_WORDS_MAX = 1500;
const CONTEXT_LINES = 3;
const WORDS = /\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;

/**
 * Align two lists by Myers' algorithm.
 * @returns {Array<[number, number]> | null} pairs of equal elements in order; null beyond `most` edits
 */
export function aligned(a, b, most = 2500, same = (x, y) => x === y) {
  const n = a.length, m = b.length;
  let start = 0, endA = n, endB = m;
  while (start < endA && start < endB && same(a[start], b[start])) start++;
  while (endA > start && endB > start && same(a[endA - 1], b[endB - 1])) { endA--; endB--; }
  const inner = shortest(a.slice(start, endA), b.slice(start, endB), most, same);
  if (inner === null) return null;
  const pairs = [];
  for (let i = 0; i < start; i++) pairs.push([i, i]);
  for (const [i, j] of inner) pairs.push([start + i, start + j]);
  for (let i = 0; endA + i < n; i++) pairs.push([endA + i, endB + i]);
  return pairs;
}

function shortest(a, b, most, same) {
  const n = a.length, m = b.length, limit = Math.min(n + m, most);
  let reach = new Int32Array(2 * limit + 3);
  const trace = [];
  const middle = limit + 1;
  for (let edits = 0; edits <= limit; edits++) {
    trace.push(reach.slice(middle - edits - 1, middle + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && reach[middle + k - 1] < reach[middle + k + 1]);
      let x = down ? reach[middle + k + 1] : reach[middle + k - 1] + 1;
      let y = x - k;
      while (x < n && y < m && same(a[x], b[y])) { x++; y++; }
      reach[middle + k] = x;
      if (x >= n && y >= m) return walked(trace, n, m);
    }
  }
  return null;
}

function walked(trace, n, m) {
  const pairs = [];
  let x = n, y = m;
  for (let edits = trace.length - 1; edits > 0; edits--) {
    const at = (k) => trace[edits][k + edits + 1];
    const k = x - y;
    const before = k === -edits || (k !== edits && at(k - 1) < at(k + 1)) ? k + 1 : k - 1;
    const fromX = at(before), fromY = fromX - before;
    while (x > fromX && y > fromY) pairs.push([--x, --y]);
    x = fromX;
    y = fromY;
  }
  while (x > 0 && y > 0) pairs.push([--x, --y]);
  return pairs.reverse();
}

/** @returns {string[]} how one text became another, in lines that begin with `+`, `-`, `@` or a space */
export function edit(old, now) {
  const before = old ? linesOf(clean(old)) : [], after = now ? linesOf(clean(now)) : [];
  const pairs = Math.max(before.length, after.length) > COMPARED_LINES_MAX ? null : aligned(before, after);
  if (pairs === null) return [...before.map((line) => `-${line}`), ...after.map((line) => `+${line}`)];
  const lines = [];
  let i = 0, j = 0;
  for (const [x, y] of [...pairs, [before.length, after.length]]) {
    while (i < x) lines.push(`-${before[i++]}`);
    while (j < y) lines.push(`+${after[j++]}`);
    if (x < before.length) { lines.push(` ${before[x]}`); i = x + 1; j = y + 1; }
  }
  return hunks(lines);
}

/**
 * What two texts have apart, word by word.
 * @returns {[Array<[string, boolean]>, Array<[string, boolean]>]} the pieces of each, and whether only this one has them
 */
export function wordsApart(one, other) {
  const a = clean(one).match(WORDS) ?? [], b = clean(other).match(WORDS) ?? [];
  const pairs = aligned(a, b, COMPARED_WORDS_MAX) ?? [];
  const inBoth = [new Set(pairs.map(([i]) => i)), new Set(pairs.map(([, j]) => j))];
  return [a, b].map((words, side) => words.reduce((pieces, word, at) => {
    const isApart = !inBoth[side].has(at), last = pieces.at(-1);
    if (last && last[1] === isApart) last[0] += word; else pieces.push([word, isApart]);
    return pieces;
  }, []));
}

/** Keep three lines around each change; a heading stands between hunks, if there are several. */
function hunks(lines) {
  const keep = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line[0] !== " ") keep.fill(1, Math.max(0, at - CONTEXT_LINES), at + CONTEXT_LINES + 1);
  });
  const groups = [];
  lines.forEach((line, at) => {
    if (!keep[at]) return;
    if (!keep[at - 1]) groups.push([]);
    groups[groups.length - 1].push(line);
  });
  return groups.length > 1 ? groups.flatMap((group) => ["@@", ...group]) : groups[0] ?? [];
}

export const isPatch = (text) => /^(\*\*\* Begin Patch|diff --git |--- a\/)/.test(text);

export const patch = (text) => linesOf(clean(text));

/** @returns {string} how many lines came and went, such as `+3 −1` */
export function counts(lines) {
  const came = lines.filter((line) => line.startsWith("+") && !line.startsWith("+++")).length;
  const went = lines.filter((line) => line.startsWith("-") && !line.startsWith("---")).length;
  return [came && `+${came}`, went && `−${went}`].filter(Boolean).join(" ") || "±0";
}
