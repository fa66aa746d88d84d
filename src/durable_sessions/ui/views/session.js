// Reading a session.
import { useEffect, useRef, useState } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { get, sessionPath, url } from "../api/client.js";
import { find, markWords, wordsOf } from "../list/find.js";
import { Following } from "../list/follow.js";
import { needsLens } from "../list/strip.js";
import { marked, neighbour, toggleMark } from "../list/listed.js";
import { Transcript } from "../list/transcript.js";
import { announce, copy } from "../parts/copy.js";
import { html } from "../parts/html.js";
import { useKeys } from "../parts/keys.js";
import { curlOf } from "../parts/links.js";
import { Menu } from "../parts/menu.js";
import { offered } from "../parts/palette.js";
import { exact, short } from "../parts/number.js";
import { Failed, Loading, Nothing } from "../parts/states.js";
import { inUtc } from "../parts/time.js";
import { oneLine } from "../reading/text.js";
import { address, go, note, push, route, sessionAddress } from "../router.js";
import { Action, actionsOf } from "./actions.js";
import { Inspector, PANELS } from "./inspector.js";
import { Overview, Ruler } from "./overview.js";

const KEPT = ["q", "hide", "show", "only", "panel"];

/** What the address says is shown. */
function filterOf(params) {
  const hide = (params.get("hide") ?? "").split(",");
  return { tools: !hide.includes("tools"), thinking: !hide.includes("thinking"), quiet: params.get("show") === "quiet", only: onlyOf(params.get("only")) };
}

function onlyOf(text) {
  if (!text) return null;
  const at = text.indexOf(":"), kind = at < 0 ? text : text.slice(0, at), value = at < 0 ? "" : text.slice(at + 1);
  if (kind === "range") {
    const [from, to] = value.split("-").map(Number);
    return Number.isInteger(from) && Number.isInteger(to) ? ["range", [from, to]] : null;
  }
  return ["failed", "user", "tool", "thread"].includes(kind) ? [kind, value] : null;
}

export default function Session() {
  const { id } = route.value;
  return html`<${Reading} key=${id} id=${id} />`;
}

function Reading({ id }) {
  const [info, setInfo] = useState(null), [error, fail] = useState(null), [missing, miss] = useState(null);
  const [ready, setReady] = useState(false), [, redraw] = useState(0);
  const hasLens = useRef(false), [action, act] = useState(null), [byTime, setByTime] = useState(false);
  const view = useRef(null), transcript = useRef(null), following = useRef(null), moving = useRef(0);
  const found = useSignal(null), selected = useSignal(null), window_ = useSignal([0, 0]), drawn = useSignal([0, 0]);
  const { params } = route.value;
  const q = params.get("q") ?? "", panel = params.get("panel");

  /** The address of what is seen: the selected event or the one that was linked, filters, and whether it goes on at the end. */
  const addressNow = (values = {}) => {
    const given = route.value.params, one = transcript.current, event = selected.value === null ? null : one?.pages.event(selected.value)?.id;
    const where = event ? { event } : selected.value !== null ? { at: selected.value } : { event: given.get("event"), at: given.get("at") };
    return sessionAddress(id, { ...Object.fromEntries(KEPT.map((name) => [name, given.get(name)])), ...where, follow: isFollowed() ? 1 : null, ...values });
  };
  const isFollowed = () => transcript.current?.scroller?.sticks && following.current && !following.current.isOver;
  const placeNow = () => {
    const anchor = transcript.current?.scroller?.anchor;
    return anchor && { position: anchor.item.position, y: anchor.y, selected: selected.value };
  };
  const noteNow = () => {
    clearTimeout(moving.current);
    const place = placeNow();
    if (place && route.value.id === id && route.value.view === "session") note(addressNow(), place);
  };
  /** The address follows the reader, 300 ms after the last move. */
  const noted = () => {
    clearTimeout(moving.current);
    moving.current = setTimeout(noteNow, 300);
  };
  /** Go somewhere at once: what was seen before stays in the history, unless it still is. */
  const leap = async (going) => {
    noteNow();
    const [first, last] = window_.value, found = await going();
    const place = placeNow();
    if (place && (place.position < first || place.position > last)) push(addressNow(), place);
    return found;
  };
  /** Back: the same row at the same pixel. */
  const restore = async ({ position, y, selected: chosen }) => {
    const one = transcript.current;
    clearTimeout(moving.current);
    await one.outline.fetch(one.outline.indexOf(position)).catch(() => null);
    const item = one.rows.holding(position);
    if (!item || item.isGap) return;
    one.select(chosen ?? null);
    one.scroller.go(item, y);
  };

  useEffect(() => {
    let closed = false;
    (async () => {
      try {
        const target = route.value.params.get("event"), at = route.value.params.get("at"), kept = history.state;
        const [session, position] = await Promise.all([get(sessionPath(id)), positionOf(id, target, at).catch((problem) => {
          if (problem.status !== 404) throw problem;
          miss(target);
          return null;
        })]);
        if (closed) return;
        hasLens.current = needsLens(session.event_count, innerWidth); // for good: a lens that came later would move the rows
        setInfo(session);
        document.title = `${oneLine(session.title || id, 80)} · Durable Sessions`;
        const one = transcript.current = new Transcript(id, session, {
          changed: () => redraw((count) => count + 1), moved: () => { noted(); update(); },
          address: (event) => sessionAddress(id, { at: event }),
          selected: (event) => { selected.value = event; noted(); },
          shown: () => { update(); markWords(view.current, one.words); },
        });
        Object.assign(one.filter, filterOf(route.value.params));
        // What has ended is read from its start; what goes on, at its end.
        const isOver = session.imported || ["closed", "archived"].includes(session.lifecycle), goesOn = Boolean(route.value.params.get("follow"));
        await one.open(view.current, goesOn ? null : position ?? kept?.position ?? (isOver ? 0 : null));
        if (closed) return;
        if (goesOn && position !== null) one.select(position);
        if (kept?.position !== undefined && one.scroller && !goesOn) await restore(kept);
        setReady(true);
        following.current = new Following(one);
        if (one.scroller?.sticks) noted();
        redraw((count) => count + 1);
      } catch (problem) {
        if (!closed) fail(problem);
      }
    })();
    return () => {
      closed = true;
      clearTimeout(moving.current);
      following.current?.close();
      transcript.current?.close();
    };
  }, []);

  const update = () => {
    const one = transcript.current, items = one?.scroller?.items ?? [];
    if (!items.length) return;
    let y = one.scroller.start, seen = [];
    for (const item of items) {
      const height = one.rows.height(item);
      if (y + height > 0 && y < one.scroller.height) seen.push(item.position);
      y += height;
    }
    if (seen.length) window_.value = [seen[0], seen.at(-1)];
    drawn.value = [items[0].position, items.at(-1).position];
    if (one.scroller.atEnd && following.current) following.current.unseen.value = 0;
  };

  // A link within the session, or back: go there.
  const targetKey = `${params.get("event")} ${params.get("at")}`;
  const firstTarget = useRef(targetKey);
  useEffect(() => {
    if (!ready || firstTarget.current === targetKey) return;
    firstTarget.current = targetKey;
    const event = params.get("event"), at = params.get("at"), one = transcript.current;
    if (selected.value !== null && (String(selected.value) === at || one.pages.event(selected.value)?.id === event)) return;
    positionOf(id, event, at).then((position) => position !== null && one.show(position), () => miss(event));
  }, [ready, targetKey]);

  useEffect(() => {
    const back = () => {
      const { view: shown, id: other, params: given } = route.value;
      if (!ready || shown !== "session" || other !== id || history.state?.position === undefined) return;
      firstTarget.current = `${given.get("event")} ${given.get("at")}`; // the place says more than the address
      restore(history.state);
    };
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, [ready]);

  const filterKey = `${params.get("hide")} ${params.get("show")} ${params.get("only")}`;
  useEffect(() => { if (ready) { transcript.current.refilter(filterOf(params)); redraw((n) => n + 1); } }, [filterKey]);
  useEffect(() => { if (ready) { const one = transcript.current; one.drawing = inUtc.value; one.repaint(); } }, [inUtc.value]);

  // Find.
  useEffect(() => {
    const one = transcript.current;
    if (!ready) return undefined;
    one.words = wordsOf(q);
    markWords(view.current, one.words);
    if (!q) { found.value = null; return undefined; }
    const controller = new AbortController();
    found.value = { busy: true, positions: [], total: 0 };
    find(id, q, controller.signal).then((hits) => {
      found.value = hits;
      announce(`${hits.total} hits`);
      if (!route.value.params.get("event") && hits.positions.length && selected.value === null) one.show(hits.positions[0]);
    }, (problem) => { if (problem.name !== "AbortError") found.value = { error: problem.message, positions: [], total: 0 }; });
    return () => controller.abort();
  }, [ready, q]);

  const nextHit = (step) => {
    const hits = found.value?.positions ?? [], from = selected.value ?? -1;
    if (!hits.length) return;
    const next = step > 0 ? hits.find((hit) => hit > from) ?? hits[0] : [...hits].reverse().find((hit) => hit < from) ?? hits.at(-1);
    leap(() => transcript.current.show(next, { open: true }));
  };
  const sought = (words) => { // its first hit may be far away
    noteNow();
    selected.value = null;
    push(addressNow({ q: words, event: null, at: null }), null);
    route.value = { ...route.value, params: new URLSearchParams(location.search) };
  };
  const change = (values) => {
    note(addressNow(values));
    route.value = { ...route.value, params: new URLSearchParams(location.search) };
  };
  const one = transcript.current;
  const event = () => (selected.value === null ? null : one?.pages.event(selected.value));
  const copies = {
    c: () => copy(location.origin + addressNow()),
    y: () => event() && copy(JSON.stringify(event(), null, 2)),
    u: () => copy(curlOf(sessionPath(id, "/events") + (event() ? `/${encodeURIComponent(event().id)}` : ""))),
  };
  const mark = () => {
    toggleMark(id);
    announce(marked.value.includes(id) ? "Marked: = compares it with another one that is marked" : "Not marked any more");
  };
  const end = () => leap(() => toEnd(one, following.current));
  useKeys({
    j: () => one?.move(1), k: () => one?.move(-1), ArrowDown: (pressed) => arrow(pressed, one, 1), ArrowUp: (pressed) => arrow(pressed, one, -1),
    J: () => leap(() => one?.nextPrompt(1)), K: () => leap(() => one?.nextPrompt(-1)), e: () => jumped(leap(() => one?.nextFailure(1)), "failure"), E: () => jumped(leap(() => one?.nextFailure(-1)), "failure"),
    n: () => nextHit(1), N: () => nextHit(-1), gg: () => leap(() => toStart(one)), G: end, f: end,
    Enter: (pressed) => { if (pressed.target.closest("a, button, input")) return false; if (selected.value !== null) one?.toggle(selected.value); return true; },
    r: () => act("resume"), F: () => actions.some((item) => item.dialog === "fork") && act("fork"), t: () => setByTime((old) => !old),
    m: mark, "=": () => { const other = marked.value.find((one) => one !== id) ?? info?.forked_from?.session_id; if (other) go(address("/compare", { a: other, b: id })); }, "[": () => toNeighbour(id, -1), "]": () => toNeighbour(id, 1),
    "/": () => document.getElementById("find")?.focus(), i: () => change({ panel: panel ? null : "event" }), s: () => change({ panel: panel === "state" ? null : "state" }), ...copies,
    Escape: () => { if (document.activeElement?.id === "find") document.activeElement.blur(); else if (panel) change({ panel: null }); else history.length > 1 && history.back(); },
  }, [ready, panel, q, info]);

  const actions = info ? actionsOf(info) : [];
  const links = info ? [
    { name: "Copy link", act: copies.c }, { name: "Copy as curl", act: copies.u }, { name: "JSON", href: url(sessionPath(id)), target: "_blank" },
    { name: "Graph", href: sessionAddress(id, {}, "/graph") }, { name: "Usage", href: sessionAddress(id, {}, "/usage") }, { name: "Dossier", href: sessionAddress(id, {}, "/dossier") },
    info.forked_from && { name: "Compare with its source", href: address("/compare", { a: info.forked_from.session_id, b: id }) },
  ].filter(Boolean) : [];
  const things = [...actions.map((item) => ({ name: item.name, act: () => act(item.dialog) })), ...links];
  useEffect(() => {
    offered.value = things.map((item) => ({ name: item.name, act: item.act ?? (() => (item.target ? open(item.href, item.target, "noopener") : go(item.href))) }));
    return () => { offered.value = []; };
  }, [info, ready]);
  const changed = (name) => {
    if (name === "delete") go(address("/"));
    else get(sessionPath(id)).then(setInfo, () => {});
  };

  if (error) return html`<${Failed} alone error=${error} retry=${() => location.reload()} />`;
  const state = following.current?.state.value;
  return html`<div class=${`reading ${panel ? "with-panel" : ""}`}>
    <div class="head"><a class="back" href=${address("/")}>‹ Sessions</a><h1><bdi>${info ? oneLine(info.title || id, 200) : id}</bdi></h1>
      ${info && html`<${About} info=${info} one=${one} />`}${marked.value.includes(id) && html`<span class="chip" title="To be compared with another one that is marked">marked</span>`}<span class="room"></span><${Live} state=${state} />
      ${info && html`<button type="button" class="quiet-button" onClick=${() => act("resume")}>Resume</button><${Menu} label="More" items=${things.slice(1)} />`}
      <button type="button" class="quiet-button" aria-expanded=${Boolean(panel)} onClick=${() => change({ panel: panel ? null : "event" })}>Inspector</button></div>
    <${Overview} one=${ready && one.outline.events > 0 ? one : null} hasLens=${hasLens.current} range=${window_} hits=${found.value?.positions} version=${one?.outline.events} byTime=${byTime} leap=${leap}
      brush=${([from, to]) => change({ only: `range:${from}-${to}` })} />
    ${ready && one.outline.events > 0 && html`<${Paper} id=${id} drawn=${drawn} one=${one} />`}
    ${missing && html`<p class="banner" role="alert">There is no event <code>${oneLine(missing, 80)}</code> in this session. <button type="button" class="quiet-button" onClick=${() => miss(null)}>Close</button></p>`}
    <div class="panes"><div class="list" role="feed" aria-label="Events" aria-busy=${!ready} ref=${view} tabindex="0"></div>
      ${ready && one.outline.events > 0 && html`<${Ruler} one=${one} leap=${leap} hits=${found.value?.positions} version=${one.outline.events} />`}
      ${!ready && html`<div class="over"><${Loading} rows=${18} /></div>`}
      ${ready && !one.outline.events && html`<div class="over"><${Nothing} title="No events yet"><p>They appear here as they come.</p><//></div>`}
      ${panel && ready && html`<${Inspector} panel=${panel} panels=${PANELS} one=${one} info=${info} selected=${selected} change=${change} leap=${leap} />`}</div>
    <${Foot} q=${q} found=${found.value} selected=${selected} sought=${sought} change=${change} params=${params} next=${nextHit} one=${one} ready=${ready}
      unseen=${following.current?.unseen.value ?? 0} toEnd=${end} />
    ${action && info && html`<${Action} key=${action} name=${action} id=${id} info=${info} position=${selected.value} close=${() => act(null)} changed=${changed} />`}</div>`;
}

async function positionOf(id, event, at) {
  if (event) {
    const page = await get(sessionPath(id, "/events"), { around: event, window: 0, clip: 1024 });
    return page.first;
  }
  return at !== null && /^\d{1,12}$/.test(at) ? Number(at) : null;
}

const arrow = (pressed, one, step) => (pressed.target.closest(".list") ? void one?.move(step) : false);
const toNeighbour = (id, step) => { const other = neighbour(id, step); if (other) go(sessionAddress(other)); else announce("No more sessions in the list"); };
const jumped = async (going, noun) => { if (going && !(await going)) announce(`No more ${noun}`); };
const toStart = async (one) => { await one?.outline.fetch(0); one?.scroller?.toStart(); };
async function toEnd(one, following) {
  if (!one?.outline.events) return;
  await one.outline.fetch(one.outline.blockCount - 1);
  one.scroller.toEnd();
  if (following) following.unseen.value = 0;
}

function About({ info, one }) {
  const agent = info.agent?.name && info.agent.name !== "unknown" ? info.agent.name : info.metadata?.source ?? "";
  const model = typeof info.agent?.model === "string" ? info.agent.model : info.agent?.model?.id;
  const said = [agent, model !== "unknown" && model, `${exact(one?.outline.events ?? info.event_count)} events`,
    info.imported && "imported", info.lifecycle !== "active" && info.lifecycle,
    one && !one.outline.complete && one.outline.events > 0 && `outlined ${exact(one.outline.through ?? 0)}, the rest is guessed`].filter(Boolean);
  return html`<span class="about"><bdi>${said.map((text) => oneLine(String(text), 60)).join(" · ")}</bdi>
    ${info.forked_from && html` · fork of <a href=${sessionAddress(info.forked_from.session_id, { at: info.forked_from.position })}><bdi>${info.forked_from.session_id}</bdi></a>`}</span>`;
}

/** What is on paper and what is not: only the rows around the view can be printed. */
function Paper({ id, drawn, one }) {
  const [first, last] = drawn.value;
  return html`<p class="on-paper">Events #${exact(first)} to #${exact(last)} of ${exact(one.outline.events)}. All of them: ${location.origin + sessionAddress(id, { plain: 1 })}, or the command ds export.</p>`;
}

function Live({ state }) {
  if (!state) return null;
  const words = { live: state.lag === undefined ? "live" : `live ${Math.round(state.lag)} ms`, connecting: "connecting", reconnecting: "reconnecting",
    waiting: `reconnecting in ${state.reason} s`, stale: "stale", looking: "every few seconds", paused: "paused", ended: state.reason };
  return html`<span class=${`live ${state.name}`} title=${state.name === "looking" ? "Four other tabs of this browser follow already" : null}>${words[state.name]}</span>`;
}

function Foot({ q, found, selected, sought, change, params, next, one, ready, unseen, toEnd: end }) {
  const hide = (params.get("hide") ?? "").split(",").filter(Boolean);
  const toggle = (name) => change({ hide: (hide.includes(name) ? hide.filter((other) => other !== name) : [...hide, name]).join(",") });
  const only = params.get("only"), hits = found?.positions ?? [];
  const rank = selected.value === null ? 0 : hits.indexOf(selected.value) + 1;
  const submit = (event) => {
    event.preventDefault();
    const { value } = event.target.elements.q;
    if (value.trim() === q) next(1);
    else sought(value.trim());
  };
  const quiet = ready ? one.outline.summaries.reduce((sum, block) => sum + (block?.quiet ?? 0), 0) : 0;
  return html`<footer class="foot"><form role="search" onSubmit=${submit}><input id="find" name="q" type="search" defaultValue=${q} key=${q} placeholder="Find in this session  ( / )" aria-label="Find in this session" /></form>
    ${found && html`<span class="hits" role="status">${found.error ? found.error : found.busy ? "searching" : `${rank ? `${exact(rank)} of ` : ""}${exact(found.total)}${found.truncated ? ", the first 10,000" : ""}${found.upToDate === false ? ", not all searched yet" : ""}`}
      <button type="button" class="quiet-button" aria-label="Previous hit" onClick=${() => next(-1)}>N</button><button type="button" class="quiet-button" aria-label="Next hit" onClick=${() => next(1)}>n</button></span>`}
    <label class="check"><input type="checkbox" checked=${!hide.includes("tools")} onChange=${() => toggle("tools")} /> tools</label>
    <label class="check"><input type="checkbox" checked=${!hide.includes("thinking")} onChange=${() => toggle("thinking")} /> thinking</label>
    <label class="check" title="Spans, statuses and import records"><input type="checkbox" checked=${params.get("show") === "quiet"} onChange=${(event) => change({ show: event.target.checked ? "quiet" : null })} /> quiet${quiet ? ` (${short(quiet)})` : ""}</label>
    <label class="choice"><span>only</span><select value=${only ?? ""} onChange=${(event) => change({ only: event.target.value || null })}>
      <option value="">all</option><option value="failed">failures</option><option value="user">prompts</option>
      ${only && !["failed", "user"].includes(only) && html`<option value=${only}>${oneLine(only, 40)}</option>`}
      ${ready && one.outline.names.slice(0, 40).map((name) => html`<option value=${`tool:${name}`}>${oneLine(name, 40)}</option>`)}
      ${ready && one.outline.threads.slice(0, 40).map((thread, at) => html`<option value=${`thread:${thread.id}`}>thread ${oneLine(one.outline.threadName(at + 1), 40)}</option>`)}</select></label>
    ${(only || hide.length > 0) && html`<span class="note">Not all is shown. <button type="button" class="quiet-button" onClick=${() => change({ only: null, hide: null })}>Show all</button></span>`}
    <span class="room"></span>${unseen > 0 && html`<button type="button" class="pill" onClick=${end}>${exact(unseen)} new ↓</button>`}</footer>`;
}
