// The whole session above its rows: the strip, the lens where the strip is too dense, and the ruler beside the scrollbar.
import { useEffect, useRef, useState } from "preact/hooks";
import { Axis, drawLens, drawRuler, drawStrip, lensRange } from "../list/strip.js";
import { html } from "../parts/html.js";
import { exact } from "../parts/number.js";

/** Draw now, and again when the size or the colours change. */
function useDrawing(canvas, draw, inputs) {
  useEffect(() => {
    const act = () => canvas.current && draw(canvas.current);
    const scheme = matchMedia("(prefers-color-scheme: dark)"), observer = new ResizeObserver(act);
    act();
    observer.observe(canvas.current);
    addEventListener("ds-looks", act);
    scheme.addEventListener("change", act);
    return () => { observer.disconnect(); removeEventListener("ds-looks", act); scheme.removeEventListener("change", act); };
  }, inputs);
}

const drawn = (version) => (version < 4096 ? version : Math.floor(version / 50));

/** `one` is null until the session is there: the room is taken from the beginning, so that nothing below moves. */
export function Overview({ one, hasLens, range, hits, version, byTime, brush, leap }) {
  if (!one) return html`<div class="overview"><div class="strip"></div>${hasLens && html`<div class="lens"></div>`}</div>`;
  return html`<div class="overview"><${Strip} one=${one} range=${range} hits=${hits} version=${version} byTime=${byTime} brush=${brush} leap=${leap} />
    ${hasLens && html`<${Lens} one=${one} range=${range} hits=${hits} version=${version} leap=${leap} />`}</div>`;
}

function Strip({ one, range, hits, version, byTime, brush, leap }) {
  const canvas = useRef(null), box = useRef(null), dragging = useRef(null), [chosen, choose] = useState(null);
  const { outline } = one, axis = new Axis(outline, byTime);
  useDrawing(canvas, (element) => drawStrip(element, outline, { hits: hits ?? [], axis: new Axis(outline, byTime) }), [outline.points, hits, byTime, drawn(version)]);
  const [first, last] = range.value, { events } = axis, left = axis.share(first), width = axis.share(last + 1) - left;
  const at = (pointer) => {
    const { left: start, width: room } = box.current.getBoundingClientRect();
    return axis.position((pointer.clientX - start) / room);
  };
  const pressed = (pointer) => {
    pointer.currentTarget.setPointerCapture(pointer.pointerId);
    dragging.current = { from: at(pointer), isBrush: pointer.shiftKey };
    if (pointer.shiftKey) choose([at(pointer), at(pointer)]); else leap(() => one.show(at(pointer)));
  };
  const moved = (pointer) => {
    const { current } = dragging;
    if (!current) return;
    if (current.isBrush) choose([Math.min(current.from, at(pointer)), Math.max(current.from, at(pointer))]); else one.show(at(pointer));
  };
  const released = () => {
    if (dragging.current?.isBrush && chosen && chosen[1] > chosen[0]) brush(chosen);
    dragging.current = null;
    choose(null);
  };
  const keyed = (event) => {
    const step = { ArrowRight: 0.01, ArrowLeft: -0.01, PageDown: 0.1, PageUp: -0.1, Home: -1, End: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    one.show(Math.max(0, Math.min(events - 1, Math.round(first + step * events))));
  };
  return html`<div class="strip" ref=${box} role="slider" tabindex="0" aria-label=${`Place in the session, ${byTime && axis.stops ? "by time" : "by event"}`} aria-valuemin="0" aria-valuemax=${events - 1}
      aria-valuenow=${first} aria-valuetext=${`event ${exact(first)} of ${exact(events)}`} title="Click to go there; with Shift, choose a range; t is by time or by event" onKeyDown=${keyed} onPointerDown=${pressed}
      onPointerMove=${moved} onPointerUp=${released}>
    <canvas ref=${canvas} aria-hidden="true"></canvas>
    ${chosen && html`<div class="brush" style=${{ left: `${axis.share(chosen[0]) * 100}%`, width: `${(axis.share(chosen[1]) - axis.share(chosen[0])) * 100}%` }}></div>`}
    <div class="marker" style=${{ left: `${left * 100}%`, width: `${Math.max(0.3, width * 100)}%` }}></div></div>`;
}

function Lens({ one, range, hits, version, leap }) {
  const canvas = useRef(null), box = useRef(null), { outline } = one, [first, last] = range.value;
  const [from, to] = lensRange(outline.events, (first + last) / 2);
  const blocks = [...outline.blocks.keys()].filter((number) => number >= outline.indexOf(from) && number <= outline.indexOf(to - 1)).join();
  useEffect(() => {
    const timer = setTimeout(() => { outline.fetch(outline.indexOf(from)); outline.fetch(outline.indexOf(to - 1)); }, 120); // not while it is dragged past
    return () => clearTimeout(timer);
  }, [from]);
  useDrawing(canvas, (element) => drawLens(element, outline, [from, to], hits ?? []), [from, to, blocks, hits, drawn(version)]);
  const go = (pointer) => {
    const { left, width } = box.current.getBoundingClientRect();
    leap(() => one.show(Math.max(from, Math.min(to - 1, Math.round(from + ((pointer.clientX - left) / width) * (to - from))))));
  };
  const share = (position) => ((position - from) / (to - from)) * 100;
  return html`<div class="lens" ref=${box} aria-hidden="true" onPointerDown=${go}><canvas ref=${canvas}></canvas>
    <span class="origin">#${exact(from)}</span><span class="origin">#${exact(to - 1)}</span>
    <div class="marker" style=${{ left: `${share(first)}%`, width: `${Math.max(0.3, share(last + 1) - share(first))}%` }}></div></div>`;
}

export function Ruler({ one, leap, hits, version }) {
  const canvas = useRef(null);
  useDrawing(canvas, (element) => drawRuler(element, one.outline, hits ?? []), [one.outline.points, hits, drawn(version)]);
  const go = (pointer) => {
    const { top, height } = canvas.current.getBoundingClientRect();
    leap(() => one.show(Math.max(0, Math.min(one.outline.events - 1, Math.round(((pointer.clientY - top) / height) * one.outline.events)))));
  };
  return html`<canvas class="ruler" ref=${canvas} aria-hidden="true" onPointerDown=${go}></canvas>`;
}
