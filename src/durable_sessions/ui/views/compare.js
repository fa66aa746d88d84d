// Two runs side by side: the events that they share are one folded row, and behind them steps are aligned.
import { useEffect, useState } from "preact/hooks";
import { get, sessionPath } from "../api/client.js";
import { FAILED, Outline, QUIET, RESULT, TOOL } from "../api/outline.js";
import { entryFor } from "../list/transcript.js";
import { html } from "../parts/html.js";
import { glyph, Icon } from "../parts/icons.js";
import { useKeys } from "../parts/keys.js";
import { Links } from "../parts/links.js";
import { duration, exact, money } from "../parts/number.js";
import { Failed, Loading } from "../parts/states.js";
import { aligned, wordsApart } from "../reading/diff.js";
import { telling } from "../reading/entry.js";
import { compact, oneLine } from "../reading/text.js";
import { address, go, route, sessionAddress } from "../router.js";

const STEPS_MAX = 4000, SHOWN_MAX = 400, BLOCK = 4096, CLIP = 4096;
const parsed = (text) => { const [id, at] = (text ?? "").split("@"); return { id, at: at ? Number(at) : undefined }; };

/** The steps of a session behind the events that it shares: what is a row, with the key by which it is compared. */
async function steps(id, from, until) {
  const outline = new Outline(id, () => {});
  await outline.open();
  const found = [], end = Math.min(until ?? outline.events, outline.events);
  for (let number = Math.floor(from / BLOCK); number * BLOCK < end && found.length < STEPS_MAX; number++) {
    const block = await outline.fetch(number);
    for (let i = 0; i < block.count && found.length < STEPS_MAX; i++) {
      const position = block.from + i;
      if (position < from || position >= end || block.flags[i] & QUIET || (block.role[i] === RESULT && block.pair[i])) continue;
      found.push({ position, key: `${block.role[i]} ${block.key[i]}`, failed: (block.flags[i] & FAILED) !== 0,
        pair: block.role[i] === TOOL ? block.pair[i] : 0 });
    }
  }
  outline.closed = true;
  return { found, isAll: found.length < STEPS_MAX };
}

/** Rows of two columns: pairs of equal steps, and gaps beside those of one side. */
function rowsOf(a, b) {
  const pairs = aligned(a.map((one) => one.key), b.map((one) => one.key));
  if (pairs === null) return { rows: [...a.map((one) => [one, null]), ...b.map((one) => [null, one])], isAligned: false };
  const rows = [];
  let i = 0, j = 0;
  for (const [x, y] of [...pairs, [a.length, b.length]]) {
    while (i < x && j < y) rows.push([a[i++], b[j++], "differs"]);
    while (i < x) rows.push([a[i++], null, "differs"]);
    while (j < y) rows.push([null, b[j++], "differs"]);
    if (x < a.length) { rows.push([a[x], b[y], a[x].failed === b[y].failed ? "same" : "differs"]); i = x + 1; j = y + 1; }
  }
  return { rows, isAligned: true };
}

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

function Compared({ a, b }) {
  const [made, set] = useState(null), [error, fail] = useState(null);
  const same = route.value.params.get("same") === "hide", [drawn, draw] = useState(SHOWN_MAX);
  useEffect(() => {
    document.title = `${a.id} and ${b.id} · Durable Sessions`;
    (async () => {
      const diff = await get(sessionPath(a.id, "/diff"), { with: b.id, at: a.at, with_at: b.at });
      const from = diff.common?.position ?? 0;
      const [left, right] = await Promise.all([steps(a.id, from, a.at), steps(b.id, from, b.at)]);
      set({ diff, from, ...rowsOf(left.found, right.found), isAll: left.isAll && right.isAll });
    })().catch(fail);
  }, []);
  const next = (step) => {
    const rows = [...document.querySelectorAll(".pair.differs")], at = rows.indexOf(document.activeElement);
    const target = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step];
    target?.focus();
    target?.scrollIntoView({ block: "center" });
  };
  useKeys({ n: () => next(1), N: () => next(-1), Escape: () => history.back() }, [made]);
  if (error) return html`<${Failed} alone error=${error} />`;
  if (!made) return html`<${Loading} />`;
  const { diff, from, rows, isAligned, isAll } = made;
  const shown = same ? rows.filter((row) => row[2] !== "same") : rows;
  const first = rows.findIndex((row) => row[2] === "differs");
  return html`<div class="toolbar"><h1>Compare</h1><a href=${sessionAddress(a.id)}><bdi>${a.id}</bdi></a> with <a href=${sessionAddress(b.id)}><bdi>${b.id}</bdi></a>
      <span class="count">${from ? `${exact(from)} events in common, then ` : "no common source, aligned from the start: "}${exact(diff.a.events)} and ${exact(diff.b.events)} events</span><span class="room"></span>
      <label class="check"><input type="checkbox" checked=${same} onChange=${() => go(address("/compare", { a: route.value.params.get("a"), b: route.value.params.get("b"), same: same ? null : "hide" }), { replace: true })} /> only differences</label><${Links} path=${sessionPath(a.id, "/diff")} params=${{ with: b.id, at: a.at, with_at: b.at }} /></div>
    <div class="compare"><${Head} diff=${diff} />
    ${!isAligned && html`<p class="banner">They differ in more than 2,500 steps: shown one after the other.</p>`}
    ${!isAll && html`<p class="banner">Only the first ${exact(STEPS_MAX)} steps of each were compared.</p>`}
    ${from > 0 && html`<p class="common"><a href=${sessionAddress(a.id, { at: from })}>${exact(from)} events in common</a></p>`}
    <ol class="pairs">${shown.slice(0, drawn).map((row) => html`<${Pair} key=${`${row[0]?.position} ${row[1]?.position}`} row=${row} sessions=${[a.id, b.id]} isFirst=${rows[first] === row} />`)}</ol>
    ${shown.length > drawn && html`<p class="note">${exact(drawn)} of ${exact(shown.length)} rows. <button type="button" onClick=${() => draw(drawn + SHOWN_MAX)}>Show more</button></p>`}</div>`;
}

/** What a step was: its event, and the result of a call; null until they are there. */
function useStep(session, one) {
  const [found, set] = useState(null);
  useEffect(() => {
    if (!one) return;
    const read = (at) => get(sessionPath(session, "/events"), { from: at, limit: 1, clip: CLIP, lens: true }).then((page) => page.data[0]);
    Promise.all([read(one.position), one.pair ? read(one.position + one.pair) : null]).then(([event, result]) => {
      const known = entryFor(event);
      set({ entry: { ...known, failed: known.failed || one.failed }, result: result && entryFor(result), isClipped: Boolean(event.clipped ?? result?.clipped) });
    }, () => {});
  }, [one]);
  return found;
}

const textOf = (entry) => entry.parts.map((part) => part.text ?? part.lines?.join("\n") ?? part.rows?.map((row) => row.join(": ")).join("\n") ?? "").join("\n");
/** All that a step says: what differs in it is told word by word. */
const wordsOf = (step) => `${textOf(step.entry) || step.entry.line}${step.result ? `\n\n${textOf(step.result)}` : ""}`;

/** A row: a step of each, or of one. Two of a kind that differ open, and so do two that are the same but for their results. */
function Pair({ row, sessions, isFirst }) {
  const [one, other, kind] = row, left = useStep(sessions[0], one), right = useStep(sessions[1], other), [open, toggle] = useState(false);
  const isBoth = left !== null && right !== null && left.entry.title === right.entry.title, differs = kind === "differs" || (isBoth && wordsOf(left) !== wordsOf(right));
  const sign = kind === "differs" ? "≠" : differs ? "≈" : "=";
  return html`<li class=${`pair ${kind}`} tabindex=${kind === "differs" ? "0" : null}>
    <${Step} session=${sessions[0]} one=${one} found=${left} />
    ${isBoth && differs ? html`<button type="button" class="sign" aria-expanded=${open} aria-label="What differs" title="What differs" onClick=${() => toggle(!open)}>${sign}</button>` : html`<span class="sign">${sign}</span>`}
    <${Step} session=${sessions[1]} one=${other} found=${right} isFirst=${isFirst} />
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
