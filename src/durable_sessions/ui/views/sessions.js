// All sessions: the newest activity first, changed rows in place, new ones behind a pill.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../api/client.js";
import { follow } from "../api/live.js";
import { marked, remember, toggleMark } from "../list/listed.js";
import { html } from "../parts/html.js";
import { useKeys } from "../parts/keys.js";
import { Links } from "../parts/links.js";
import { exact, short } from "../parts/number.js";
import { Failed, Loading, Nothing } from "../parts/states.js";
import { ago, whole } from "../parts/time.js";
import { oneLine, plural } from "../reading/text.js";
import { address, go, route, sessionAddress } from "../router.js";
import { Beginning } from "./beginning.js";

const PAGE = 100, ROW = 40, OVER = 10;
const FILTERS = ["q", "lifecycle", "status", "tool", "agent", "after", "archived", "sort"];

/** The parameters of the API for those of the address. */
function asked(params) {
  const given = (name) => params.get(name) || undefined;
  return { limit: PAGE, sort: params.get("sort") === "created_at" ? "created_at" : "activity", counts: true, q: given("q"),
    lifecycle: given("lifecycle"), "statuses[]": given("status"), agent_id: given("agent"), after: given("after"),
    include_archived: params.get("archived") ? true : undefined,
    ...(given("tool") ? { "metadata[tool]": given("tool") } : {}) };
}

function useSessions(params) {
  const key = FILTERS.map((name) => params.get(name) ?? "").join("\n");
  const [state, set] = useState({ data: null, next: null, error: null, fresh: new Map(), gone: new Set() });
  const loading = useRef(null), latest = useRef({});
  const load = async (page) => {
    if (loading.current?.page === page) return;
    loading.current?.controller.abort();
    const controller = new AbortController();
    loading.current = { page, controller };
    try {
      const found = await get("/v1/sessions", { ...asked(params), page: page ?? undefined }, { signal: controller.signal });
      set((old) => ({ ...old, error: null, next: found.next_page, data: page && old.data ? [...old.data, ...found.data] : found.data,
        fresh: page ? old.fresh : new Map() }));
    } catch (error) {
      if (error.name === "AbortError") return; // something else was asked for meanwhile
      set((old) => ({ ...old, error }));
    }
    loading.current = null;
  };
  /** Read the list anew: what is on its way may be older than what has changed. */
  const reload = () => {
    loading.current?.controller.abort();
    loading.current = null;
    load(null);
  };
  /** What has changed, in place: somebody is in the list, and nothing moves under the pointer. */
  const look = () => get("/v1/sessions", asked(params)).then((found) => set((old) => changed(old, { changed: found.data, gone: [] }, false)), () => {});
  latest.current = { reload, look, params, shown: state.data?.length ?? null };
  useEffect(reload, [key]);
  useEffect(() => follow("/v1/sessions", () => ({ live: "sse" }), {
    // There is no replay: what changed before the stream began is in the list that is read now.
    state: (name) => {
      if (name === "live" || (name === "looking" && isLeft())) latest.current.reload();
      else if (name === "looking") latest.current.look();
    },
    ended: (status) => (status === 401 || status === 403 ? "key revoked" : null),
    frame: ({ event, data }) => {
      if (event !== "sessions") return;
      const news = JSON.parse(data), { shown, params: given } = latest.current;
      // The first session takes the place of the words about none.
      if (news.more || shown === 0 || loading.current?.page === null) latest.current.reload();
      set((old) => changed(old, news, given.get("sort") !== "created_at"));
    },
  }), []);
  return { ...state, reload, more: () => state.next && load(state.next) };
}

/** Nobody is about to press a row: neither the pointer nor the focus is in the list, and it was not scrolled. */
function isLeft() {
  const list = document.querySelector(".sessions");
  return !list || (list.scrollTop === 0 && !list.matches(":hover, :focus-within"));
}

/** Put changed sessions where they are, or in their order if nobody is there; and gather new ones. */
function changed(old, news, byActivity) {
  if (!old.data) return old;
  const byId = new Map(news.changed.map((one) => [one.id, one])), gone = new Set(news.gone);
  const data = old.data.filter((one) => !gone.has(one.id))
    .map((one) => (byId.has(one.id) ? { ...byId.get(one.id), counts: one.counts } : one));
  const known = new Set(data.map((one) => one.id)), fresh = new Map(old.fresh);
  for (const [id, one] of byId) if (!known.has(id) && !one.archived_at) fresh.set(id, one);
  for (const id of gone) fresh.delete(id);
  if (byActivity && isLeft()) data.sort((a, b) => (a.last_activity_at < b.last_activity_at ? 1 : -1));
  return { ...old, data, fresh };
}

export default function Sessions() {
  const { params } = route.value;
  const { data, error, next, fresh, reload, more } = useSessions(params);
  const field = useRef(null), typing = useRef(0);
  useKeys({ "/": () => field.current?.focus(), Escape: () => (marked.value.length ? (marked.value = []) : document.activeElement?.blur()),
    "=": () => { const [a, b] = marked.value; if (b) go(address("/compare", { a, b })); } });
  useEffect(() => { remember((data ?? []).map((one) => one.id)); }, [data]);
  useEffect(() => {
    document.title = "Sessions · Durable Sessions";
    return () => clearTimeout(typing.current);
  }, []);
  const change = (name, value) => {
    const now = new URLSearchParams(route.value.params);
    if (value) now.set(name, value); else now.delete(name);
    const text = now.toString();
    go(address("/") + (text ? `?${text}` : ""), { replace: true });
  };
  const typed = (event) => {
    clearTimeout(typing.current);
    const { value } = event.target;
    typing.current = setTimeout(() => change("q", value.trim()), 20);
  };
  const filters = FILTERS.filter((name) => params.get(name) && name !== "sort");
  return html`<div class="toolbar"><h1>Sessions</h1>
      <input ref=${field} type="search" value=${params.get("q") ?? ""} onInput=${typed} placeholder="Filter by title, metadata or id  ( / )" aria-label="Filter by title, metadata or id" />
      <${Choice} name="lifecycle" label="Lifecycle" values=${["open", "active", "paused", "resumed", "closed"]} params=${params} change=${change} />
      <${Choice} name="status" label="Status" values=${["idle", "running", "rescheduling", "terminated"]} params=${params} change=${change} />
      <${Choice} name="sort" label="Sort" values=${["activity", "created_at"]} params=${params} change=${change} required />
      <label class="check"><input type="checkbox" checked=${Boolean(params.get("archived"))} onChange=${(event) => change("archived", event.target.checked ? "1" : "")} /> archived</label>
      <span class="room"></span>
      ${marked.value.length > 0 && html`<span class="note" role="status">${marked.value.length === 1 ? "1 marked; mark another to compare" : html`<a href=${address("/compare", { a: marked.value[0], b: marked.value[1] })}>Compare the two that are marked</a>`}</span>`}
      ${fresh.size > 0 && html`<button type="button" class="pill" onClick=${reload}>${fresh.size} new ↑</button>`}
      ${data?.length > 0 && html`<span class="count">${exact(data.length)}${next ? "+" : ""} ${plural(data.length, "session")}</span>`}<${Links} path="/v1/sessions" params=${asked(params)} /></div>
    ${error ? html`<${Failed} error=${error} retry=${reload} />` : !data ? html`<${Loading} />`
      : !data.length ? html`<${Empty} filters=${filters} change=${change} />`
      : html`<${List} data=${data} more=${more} />`}`;
}

function Choice({ name, label, values, params, change, required }) {
  return html`<label class="choice"><span>${label}</span><select value=${params.get(name) ?? (required ? values[0] : "")} onChange=${(event) => change(name, event.target.value)}>
    ${!required && html`<option value="">any</option>`}${values.map((value) => html`<option value=${value}>${value.replace("_", " ")}</option>`)}</select></label>`;
}

function Empty({ filters, change }) {
  if (filters.length) {
    return html`<${Nothing} title="No session matches"><p>Drop a filter: ${filters.map((name) =>
      html`<button type="button" onClick=${() => change(name, "")}>${name}</button> `)}</p><//>`;
  }
  return html`<${Beginning} />`;
}

function List({ data, more }) {
  const view = useRef(null);
  const [range, setRange] = useState([0, 40]);
  const scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = view.current;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - OVER);
    setRange((old) => (old[0] === first && old[1] >= first + Math.ceil(clientHeight / ROW) ? old : [first, first + Math.ceil(clientHeight / ROW) + 2 * OVER]));
    if (scrollTop + clientHeight > scrollHeight - 20 * ROW) more();
  };
  useEffect(() => scrolled(), [data.length]);
  const shown = useMemo(() => data.slice(range[0], range[1]), [data, range]);
  const moved = (event) => {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key];
    const focused = document.activeElement.closest("a.session")?.dataset.id;
    if ((event.key === " " || event.key === "m") && focused) { event.preventDefault(); toggleMark(focused); }
    if (!step) return;
    const links = [...view.current.querySelectorAll("a.session")];
    const at = links.indexOf(document.activeElement.closest("a.session"));
    (links[at + step] ?? links[step > 0 ? 0 : links.length - 1])?.focus();
    event.preventDefault();
  };
  return html`<div class="sessions-head" aria-hidden="true"><span></span><span>Session</span><span>Agent</span><span class="n">Events</span><span class="n">Failed</span><span class="n">Tokens</span><span>Done</span><span>Waits for</span><span class="n">Activity</span></div>
    <div class="sessions" ref=${view} onScroll=${scrolled} onKeyDown=${moved} tabindex="-1"><ul style=${{ height: `${data.length * ROW}px` }} aria-label="Sessions">
    ${shown.map((one, at) => html`<${SessionRow} key=${one.id} one=${one} top=${(range[0] + at) * ROW} isMarked=${marked.value.includes(one.id)} />`)}</ul></div>`;
}

const waits = (one) => {
  const stop = one.stops?.[0];
  if (!stop) return "";
  return (stop.kind ?? stop.type ?? stop.reason ?? "stopped").replace(/_/g, " ");
};

/** How far a session is: done, or how many of its features pass. */
function doneOf(one) {
  if (typeof one.done !== "boolean") return "";
  const features = one.outcome_evaluations ?? [];
  if (one.done || !features.length) return one.done ? "✓ done" : "not yet";
  return `${features.filter((feature) => feature.result === "satisfied").length} of ${features.length}`;
}

function SessionRow({ one, top, isMarked }) {
  const at = Date.parse(one.last_activity_at ?? one.updated_at);
  const tokens = one.usage ? one.usage.input_tokens + one.usage.output_tokens + one.usage.cache_read_input_tokens : 0;
  const running = one.status === "running" && !one.imported && !["closed", "archived"].includes(one.lifecycle);
  const state = waits(one) ? "waits" : running ? "running" : one.lifecycle === "closed" || one.archived_at ? "ended" : "idle";
  const agent = one.agent?.name && one.agent.name !== "unknown" ? one.agent.name : one.metadata?.source ?? one.metadata?.tool ?? "";
  const failed = one.counts?.failed;
  return html`<li style=${{ top: `${top}px` }}><a class=${`session ${isMarked ? "marked" : ""}`} data-id=${one.id} href=${sessionAddress(one.id)}>
    <span class=${`dot ${state}`} title=${`${one.lifecycle}, ${one.status}`}></span>${isMarked && html`<span class="visually-hidden">marked</span>`}
    <span class="title"><bdi>${oneLine(one.title || one.id, 200)}</bdi>${one.title && html`<span class="id">${one.id}</span>`}</span>
    <span class="agent-name"><bdi>${oneLine(String(agent), 40)}</bdi></span>
    <span class="n">${exact(one.event_count)}<span class="unit"> ev</span></span>
    <span class=${`n ${failed ? "bad" : "dim"}`} title=${typeof failed === "number" ? null : "Counted when the session is read"}>${failed === undefined || failed === null ? "" : failed ? `×${failed}` : "–"}</span>
    <span class="n dim">${tokens ? short(tokens) : "–"}</span>
    <span class="done">${doneOf(one)}</span>
    <span class="waits-for">${waits(one) || (one.imported && html`<span class="chip">imported</span>`)}</span>
    <time class="n" datetime=${whole(at)} title=${whole(at)}>${ago(at)}</time></a></li>`;
}
