// The whole session as a strip: failures, the size of the context, what was done, prompts. Densities, not presence.
// Beside it the lens, a part of it where single events can be told apart, and the ruler beside the scrollbar.
import { AGENT, FAILED, QUIET, RESULT, TOOL, USER } from "../api/outline.js";

const FAILURES = 12, CONTEXT = 22, LANE = 12, PROMPTS = 8, LANES_MAX = 4, LENS_EVENTS = 5_000;
const BREAK_MS = 600_000;
export const STRIP_HEIGHT = FAILURES + CONTEXT + LANE + PROMPTS + 4;

/** Where positions are on the strip, from 0 to 1, and back: in the order of events, or by time without long breaks. */
export class Axis {
  constructor(outline, byTime = false) {
    this.events = Math.max(1, outline.events);
    this.stops = byTime ? timed(outline) : null;
    this.breaks = this.stops?.filter((stop) => stop.isAfterBreak).map((stop) => stop.share) ?? [];
  }

  share(position) {
    if (!this.stops) return position / this.events;
    const { stops } = this, at = last(stops, (stop) => stop.position <= position);
    const next = stops[at + 1] ?? { position: this.events, share: 1 }, here = stops[at];
    const part = (position - here.position) / Math.max(1, next.position - here.position);
    return here.share + Math.min(1, part) * (next.share - here.share);
  }

  position(share) {
    const within = (value) => Math.max(0, Math.min(this.events - 1, Math.round(value)));
    if (!this.stops) return within(share * this.events);
    const { stops } = this, at = last(stops, (stop) => stop.share <= share);
    const next = stops[at + 1] ?? { position: this.events, share: 1 }, here = stops[at];
    return within(here.position + ((share - here.share) / Math.max(1e-9, next.share - here.share)) * (next.position - here.position));
  }
}

function last(stops, test) {
  let low = 0, high = stops.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (test(stops[middle])) low = middle; else high = middle - 1;
  }
  return low;
}

/** Points of the overview with the time that has passed until them; a break of more than ten minutes is a short one. */
function timed(outline) {
  const points = outline.shownPoints.filter((point) => point[7] > 0);
  if (points.length < 2 || points.at(-1)[7] <= points[0][7]) return null;
  let passed = 0, before = points[0][7];
  const stops = points.map((point) => {
    const step = Math.max(0, point[7] - before), isAfterBreak = step > BREAK_MS;
    before = Math.max(before, point[7]);
    passed += isAfterBreak ? 0 : step;
    return { position: point[0], share: passed, isAfterBreak };
  });
  if (!passed) return null;
  for (const stop of stops) stop.share /= passed * 1.0001;
  return [{ position: 0, share: 0 }, ...stops];
}

function begin(canvas) {
  const width = canvas.clientWidth, height = canvas.clientHeight, ratio = devicePixelRatio || 1;
  if (!width || !height) return null;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d"), colours = getComputedStyle(canvas);
  pen.scale(ratio, ratio);
  return { pen, width, height, colour: (name) => colours.getPropertyValue(`--${name}`) };
}

/**
 * Draw the points of an outline: [from, user, agent, tool, failed, compactions, context, at_ms, thread].
 * @param {HTMLCanvasElement} canvas @param {{shownPoints: number[][], events: number}} outline
 * @param {{hits?: number[], axis?: Axis}} more
 */
export function drawStrip(canvas, outline, { hits = [], axis = new Axis(outline) } = {}) {
  const made = begin(canvas);
  if (!made) return;
  const { pen, width, height, colour } = made;
  const bins = binned(outline, axis, Math.max(1, Math.floor(width)));
  const scale = height / STRIP_HEIGHT, per = Math.max(1, outline.events / bins.length);
  const bar = (x, top, room, part, name) => {
    const tall = Math.max(2, part * room * scale);
    pen.fillStyle = colour(name);
    pen.fillRect(x, (top + room) * scale - tall, 1, tall);
  };
  const most = bins.reduce((found, bin) => Math.max(found, bin.context), 1);
  pen.fillStyle = colour("line");
  pen.beginPath();
  pen.moveTo(0, (FAILURES + CONTEXT) * scale);
  let context = 0;
  bins.forEach((bin, x) => {
    context = bin.context || context;
    pen.lineTo(x, (FAILURES + CONTEXT - (context / most) * (CONTEXT - 3)) * scale);
  });
  pen.lineTo(bins.length, (FAILURES + CONTEXT) * scale);
  pen.fill();
  const lanes = Math.min(LANES_MAX, 1 + bins.reduce((found, bin) => Math.max(found, bin.lanes.length - 1), 0)), tall = LANE / lanes;
  bins.forEach((bin, x) => {
    const all = bin.user + bin.agent + bin.tool;
    const share = (many) => (per > 8 ? Math.min(1, (many / Math.max(1, all)) * 1.5) : 1);
    bin.lanes.forEach((lane, number) => {
      if (!lane || lane.agent + lane.tool === 0) return;
      const top = FAILURES + CONTEXT + 2 + Math.min(number, lanes - 1) * tall, tools = (lane.tool / (lane.agent + lane.tool)) * (tall - (lanes > 1 ? 0.6 : 0));
      pen.fillStyle = colour("good");
      pen.fillRect(x, (top + tall - tools) * scale, 1, tools * scale);
      pen.fillStyle = colour("agent");
      pen.fillRect(x, top * scale, 1, Math.max(0, tall - tools - (lanes > 1 ? 0.6 : 0)) * scale);
    });
    if (bin.failed) bar(x, 0, FAILURES, share(bin.failed), "bad");
    if (bin.user) bar(x, FAILURES + CONTEXT + LANE + 4, PROMPTS, share(bin.user), "accent");
    if (bin.compactions) {
      pen.fillStyle = colour("thinking");
      pen.fillRect(x, FAILURES * scale, 1, CONTEXT * scale);
    }
  });
  pen.fillStyle = colour("edge");
  for (const share of axis.breaks) for (let y = 0; y < height; y += 6) pen.fillRect(share * width, y, 1, 3);
  pen.fillStyle = colour("warn");
  for (const hit of hits) pen.fillRect(axis.share(hit) * width, 0, 1.5, height);
}

/** The points in as many bins as there are pixels; a point that covers several is drawn in all of them. */
function binned(outline, axis, width) {
  const bins = Array.from({ length: width }, () => ({ user: 0, agent: 0, tool: 0, failed: 0, compactions: 0, context: 0, lanes: [] }));
  const points = outline.shownPoints;
  points.forEach(([from, user, agent, tool, failed, compactions, context, , thread = 0], at) => {
    const until = at + 1 < points.length ? points[at + 1][0] : axis.events;
    const left = Math.min(width - 1, Math.floor(axis.share(from) * width));
    const right = Math.max(left + 1, Math.floor(axis.share(until) * width));
    // A long session has many points in a pixel; in a short one a point is several pixels wide, with a gap between.
    const end = Math.min(width, right - (right - left > 3 ? 1 : 0), axis.stops ? left + 3 : width);
    for (let x = left; x < end; x++) {
      const bin = bins[x], lane = (bin.lanes[Math.min(thread, LANES_MAX - 1)] ??= { agent: 0, tool: 0 });
      bin.user += user;
      bin.agent += agent;
      bin.tool += tool;
      lane.agent += agent;
      lane.tool += tool;
      bin.failed += failed;
      bin.compactions += x === left ? compactions : 0;
      bin.context = context || bin.context;
    }
  });
  return bins;
}

/** @returns {boolean} whether events are so dense on a strip of this width that a lens is needed */
export const needsLens = (events, width) => events > 2 * LENS_EVENTS && (LENS_EVENTS / events) * width < 200;

/** @returns {[number, number]} the events that the lens shows while this one is seen; it moves in steps, and so seldom */
export function lensRange(events, seen) {
  const step = LENS_EVENTS / 4, from = Math.round((seen - LENS_EVENTS / 2) / step) * step;
  const first = Math.max(0, Math.min(events - LENS_EVENTS, from));
  return [first, Math.min(events, first + LENS_EVENTS)];
}

/** Draw single events: what was done in the middle, failures above, prompts below. */
export function drawLens(canvas, outline, [from, to], hits = []) {
  const made = begin(canvas);
  if (!made) return;
  const { pen, width, height, colour } = made, x = (position) => ((position - from) / (to - from)) * width;
  const names = { [USER]: "accent", [AGENT]: "agent", [TOOL]: "good" }, wide = Math.max(1, width / (to - from));
  const third = height / 3;
  for (let number = outline.indexOf(from); number <= outline.indexOf(to - 1); number++) {
    const block = outline.blocks.get(number);
    if (!block) continue;
    for (let i = Math.max(0, from - block.from); i < Math.min(block.count, to - block.from); i++) {
      const role = block.role[i], name = names[role];
      if (block.flags[i] & QUIET || role === RESULT || !name) continue;
      const isFailed = (block.flags[i] & FAILED) !== 0;
      pen.fillStyle = colour(isFailed ? "bad" : name);
      pen.fillRect(x(block.from + i), isFailed ? 1 : role === USER ? 2 * third : third, Math.max(1, wide * 0.8), isFailed ? 2 * third : third - 1);
    }
  }
  pen.fillStyle = colour("warn");
  for (const hit of hits) if (hit >= from && hit < to) pen.fillRect(x(hit), 0, 1.5, height);
}

/** Draw where failures and hits are, from the top to the bottom. */
export function drawRuler(canvas, outline, hits = []) {
  const made = begin(canvas);
  if (!made) return;
  const { pen, width, height, colour } = made, events = Math.max(1, outline.events);
  pen.fillStyle = colour("bad");
  for (const point of outline.shownPoints) if (point[4]) pen.fillRect(0, Math.round((point[0] / events) * height), width / 2 - 1, 2);
  pen.fillStyle = colour("warn");
  for (const hit of hits) pen.fillRect(width / 2, Math.round((hit / events) * height), width / 2, 2);
}
