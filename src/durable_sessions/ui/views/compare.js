// Two runs side by side: the events that they share are one folded row, and behind them steps are aligned.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, sessionPath } from "../api/client.js";
import { folded, NearEvents, rowsOf, STEPS_MAX, stepsOf } from "../list/comparison.js";
import { entryFor } from "../list/transcript.js";
import { html } from "../parts/html.js";
import { glyph, Icon } from "../parts/icons.js";
import { useKeys } from "../parts/keys.js";
import { Links } from "../parts/links.js";
import { duration, exact, money } from "../parts/number.js";
import { Failed, Loading } from "../parts/states.js";
import { wordsApart } from "../reading/diff.js";
import { telling } from "../reading/entry.js";
import { compact, oneLine, plural } from "../reading/text.js";
import { address, go, route, sessionAddress } from "../router.js";

const SHOWN_MAX = 300, ABOVE = 60;
const parsed = (text) => { const [id, at] = (text ?? "").split("@"); return { id, at: at ? Number(at) : undefined }; };

export default function Compare() {
  const { params } = route.value;
  const a = parsed(params.get("a")), b = parsed(params.get("b"));
  if (!a.id || !b.id) return html`<${Choose} a=${a.id} />`;
  return html`<${Compared} key=${`${params.get("a")} ${params.get("b")}`} a=${a} b=${b} />`;
}

function Choose({ a }) {
  const [sessions, set] = useState([]);
  useEffect(() => {
    document.title = "Compare · Durable Sessions";
    get("/v1/sessions", { limit: 100, sort: "activity" }).then((page) => set(page.data), () => {});
  }, []);
  const submit = (event) => {
    event.preventDefault();
    go(address("/compare", { a: event.target.elements.a.value.trim(), b: event.target.elements.b.value.trim() }));
  };
  return html`<form class="sign-in" onSubmit=${submit}><h1>Compare two sessions</h1><p>Side by side from the event where they part. In the list, <kbd>Space</kbd> marks a session, and <kbd>=</kbd> compares two that are marked.</p>
    <label>One session <input type="text" name="a" list="sessions-known" required autocomplete="off" defaultValue=${a ?? ""} placeholder="id, or id@position" /></label>
    <label>Another <input type="text" name="b" list="sessions-known" required autocomplete="off" placeholder="id, or id@position" /></label>
    <datalist id="sessions-known">${sessions.map((one) => html`<option value=${one.id}>${oneLine(one.title ?? "", 80)}</option>`)}</datalist><button type="submit">Compare</button></form>`;
}

function useComparison(a, b) {
  const [made, set] = useState(null), [error, fail] = useState(null), [, redraw] = useState(0), events = useRef(null);
  useEffect(() => {
    document.title = `${a.id} and ${b.id} · Durable Sessions`;
    events.current = [a.id, b.id].map((id) => new NearEvents(id, () => redraw((count) => count + 1)));
    (async () => {
      const diff = await get(sessionPath(a.id, "/diff"), { with: b.id, at: a.at, with_at: b.at });
      const from = diff.common?.position ?? 0;
      const [left, right] = await Promise.all([stepsOf(a.id, from, a.at), stepsOf(b.id, from, b.at)]);
      set({ diff, from, ...rowsOf(left.found, right.found), isAll: left.isAll && right.isAll });
    })().catch(fail);
  }, []);
  return { made, error, events: events.current };
}

function Compared({ a, b }) {
  const { params } = route.value, same = params.get("same") === "hide", { made, error, events } = useComparison(a, b);
  const [opened, open] = useState(new Set()), [from, begin] = useState(null), list = useRef(null), seen = useRef(null);
  const many = made?.differences ?? 0, asked = Number(params.get("step"));
  const number = Number.isInteger(asked) && asked > 0 ? Math.min(asked, many) - 1 : 0;
  const change = (values) => go(address("/compare", { a: params.get("a"), b: params.get("b"), step: params.get("step"), same: params.get("same"), ...values }), { replace: true });
  const items = made ? folded(made.rows, opened, same) : [], place = items.findIndex((item) => item.number === number);
  const isDrawn = from !== null && place >= from && place < from + SHOWN_MAX;
  const start = isDrawn || (from !== null && seen.current === number) ? from : Math.max(0, place - ABOVE), shown = items.slice(start, start + SHOWN_MAX);
  useEffect(() => {
    if (!made) return;
    if (start !== from) begin(start);
    if (seen.current === number) return;
    const target = list.current?.querySelector(`[data-number="${number}"]`), isFirst = seen.current === null;
    seen.current = number;
    if (!isFirst) target?.focus({ preventScroll: true });
    target?.scrollIntoView({ block: "center" });
  }, [made, number, start]);
  useEffect(() => ["one", "other"].forEach((side, at) => events?.[at].want(shown.flatMap((row) => (row[side] ? [row[side].position, ...(row[side].pair ? [row[side].position + row[side].pair] : [])] : [])))));
  const next = (step) => many && change({ step: Math.max(0, Math.min(many - 1, number + step)) + 1 });
  useKeys({ n: () => next(1), N: () => next(-1), Escape: () => history.back() }, [made, number, same]);
  if (error) return html`<${Failed} alone error=${error} />`;
  if (!made) return html`<${Loading} />`;
  const { diff, isAligned, isAll } = made;
  return html`<div class="toolbar"><h1>Compare</h1><a href=${sessionAddress(a.id)}><bdi>${a.id}</bdi></a> with <a href=${sessionAddress(b.id)}><bdi>${b.id}</bdi></a>
      <span class="count">${made.from ? `${exact(made.from)} events in common, then ` : "no common source, aligned from the start: "}${exact(diff.a.events)} and ${exact(diff.b.events)} events</span><span class="room"></span>
      <span class="hits" role="status">${many ? `difference ${exact(number + 1)} of ${exact(many)}` : "no step differs"}
        ${many > 0 && html` <button type="button" class="quiet-button" aria-label="Previous difference" onClick=${() => next(-1)}>N</button><button type="button" class="quiet-button" aria-label="Next difference" onClick=${() => next(1)}>n</button>`}</span>
      <label class="check"><input type="checkbox" checked=${same} onChange=${() => { begin(null); seen.current = null; change({ same: same ? null : "hide" }); }} /> only differences</label><${Links} path=${sessionPath(a.id, "/diff")} params=${{ with: b.id, at: a.at, with_at: b.at }} /></div>
    <div class="compare" ref=${list}><${Head} diff=${diff} />
    ${!isAligned && html`<p class="banner">They differ in more than 2,500 steps: shown one after the other.</p>`}
    ${!isAll && html`<p class="banner">Only the first ${exact(STEPS_MAX)} steps of each were compared.</p>`}
    ${made.from > 0 && html`<p class="common"><a href=${sessionAddress(a.id, { at: made.from })}>${exact(made.from)} events in common</a></p>`}
    ${start > 0 && html`<p class="note">${exact(start)} rows above. <button type="button" onClick=${() => begin(Math.max(0, start - SHOWN_MAX))}>Show them</button></p>`}
    <ol class="pairs">${shown.map((item) => (item.sign === "thread" ? html`<li key=${`thread ${item.name}`} class="pairs-thread">${item.name ? html`thread <bdi>${oneLine(item.name, 80)}</bdi>` : "primary thread"}</li>`
      : item.sign === "fold" ? html`<li key=${`fold ${item.first.one.position}`} class="pair-fold"><button type="button" class="quiet-button" onClick=${() => open(new Set([...opened, item.first]))}>${exact(item.many)} equal ${plural(item.many, "step")}</button></li>`
      : html`<${Pair} key=${`${item.one?.position} ${item.other?.position}`} row=${item} sessions=${[a.id, b.id]} events=${events} isHere=${item.number === number} />`))}</ol>
    ${items.length > start + SHOWN_MAX && html`<p class="note">${exact(items.length - start - SHOWN_MAX)} rows below. <button type="button" onClick=${() => begin(start + SHOWN_MAX - ABOVE)}>Show them</button></p>`}</div>`;
}

/** What a step was: its event, and the result of a call; null until they are there. */
function stepOf(events, one) {
  const event = one && events.events.get(one.position), result = one?.pair ? events.events.get(one.position + one.pair) : null;
  if (!event || result === undefined) return null;
  const known = entryFor(event);
  return { entry: { ...known, failed: known.failed || one.failed }, result: result && entryFor(result), isClipped: Boolean(event.clipped ?? result?.clipped) };
}

const textOf = (entry) => entry.parts.map((part) => part.text ?? part.lines?.join("\n") ?? part.rows?.map((row) => row.join(": ")).join("\n") ?? "").join("\n");
/** All that a step says: what differs in it is told word by word. */
const wordsOf = (step) => `${textOf(step.entry) || step.entry.line}${step.result ? `\n\n${textOf(step.result)}` : ""}`;

/** A row: a step of each, or of one. Two of a kind that differ open, and so do two that are the same but for their results. */
function Pair({ row, sessions, events, isHere }) {
  const { one, other, sign: kind } = row, left = stepOf(events[0], one), right = stepOf(events[1], other), [open, toggle] = useState(false);
  const isBoth = left !== null && right !== null && left.entry.title === right.entry.title, differs = kind === "differs" || (isBoth && wordsOf(left) !== wordsOf(right));
  const sign = kind === "differs" ? "≠" : differs ? "≈" : "=";
  return html`<li class=${`pair ${kind} ${isHere ? "here" : ""}`} tabindex=${kind === "differs" ? "0" : null} data-number=${row.number} aria-current=${isHere ? "step" : null}>
    <${Step} session=${sessions[0]} one=${one} found=${left} isFirst=${row.number === 0 && one !== null} />
    ${isBoth && differs ? html`<button type="button" class="sign" aria-expanded=${open} aria-label="What differs" title="What differs" onClick=${() => toggle(!open)}>${sign}</button>` : html`<span class="sign">${sign}</span>`}
    <${Step} session=${sessions[1]} one=${other} found=${right} isFirst=${row.number === 0 && one === null} />
    ${open && html`<${Apart} left=${left} right=${right} />`}</li>`;
}

function Apart({ left, right }) {
  const sides = wordsApart(wordsOf(left), wordsOf(right));
  return sides.map((pieces, side) => html`<div class=${`apart ${side ? "came" : "went"}`}>${(side ? right : left).isClipped && html`<p class="note">A long text is cut in the middle here.</p>`}
    <pre dir="auto">${pieces.map(([text, isApart]) => (isApart ? html`<mark>${text}</mark>` : text))}</pre></div>`);
}

function Step({ session, one, found, isFirst }) {
  if (!one) return html`<span class="step"></span>`;
  if (!found) return html`<span class="step"><i class="bar"></i></span>`;
  const { entry, result } = found;
  return html`<a class=${`step ${entry.failed ? "bad" : ""}`} href=${sessionAddress(session, { at: one.position })}><${Icon} name=${glyph(entry, true)} /><b>${entry.title}</b>
    <span>${isFirst && html`<span class="chip warn">first difference</span> `}<bdi>${entry.line}</bdi>${result && html` <i class="dim"><bdi>${telling(result)}</bdi></i>`}</span></a>`;
}

function Head({ diff }) {
  const rows = [
    ["done", diff.a.done, diff.b.done], ["events", exact(diff.a.events), exact(diff.b.events)], ["failed calls", diff.a.failed_calls, diff.b.failed_calls],
    ["tokens out", exact(diff.a.usage.output_tokens ?? 0), exact(diff.b.usage.output_tokens ?? 0)], ["time", duration(diff.a.seconds * 1000), duration(diff.b.seconds * 1000)],
    ...(diff.a.usage.cost_usd || diff.b.usage.cost_usd ? [["cost", money(diff.a.usage.cost_usd ?? 0), money(diff.b.usage.cost_usd ?? 0)]] : []),
    ...diff.facts.slice(0, 50).map((one) => [`fact ${one.key}`, one.a?.value ?? one.a, one.b?.value ?? one.b]),
    ...diff.verdicts.slice(0, 50).map((one) => [`verdict ${one.feature}`, one.a?.verdict ?? one.a, one.b?.verdict ?? one.b]),
  ];
  const shown = (value) => (value === null || value === undefined ? "–" : typeof value === "boolean" ? (value ? "yes" : "no") : oneLine(compact(value), 120));
  return html`<table class="plain-table"><thead><tr><td></td><th><bdi>${diff.a.session}</bdi></th><th><bdi>${diff.b.session}</bdi></th></tr></thead>
    <tbody>${rows.map(([name, left, right]) => html`<tr class=${shown(left) === shown(right) ? "" : "differs"}><th scope="row">${oneLine(name, 80)}</th><td><bdi>${shown(left)}</bdi></td><td><bdi>${shown(right)}</bdi></td></tr>`)}</tbody></table>`;
}
