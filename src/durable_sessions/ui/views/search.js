// Hits in all sessions, grouped by session; a hit opens its session at the event.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, sessionPath } from "../api/client.js";
import { html } from "../parts/html.js";
import { Icon } from "../parts/icons.js";
import { useKeys } from "../parts/keys.js";
import { Links } from "../parts/links.js";
import { exact } from "../parts/number.js";
import { Failed, Loading, Nothing } from "../parts/states.js";
import { ago } from "../parts/time.js";
import { oneLine, plural } from "../reading/text.js";
import { address, go, route, sessionAddress } from "../router.js";

const SHOWN = 3;
const ROLES = ["user", "agent", "tool", "error", "system"];
const DEFAULT = ["user", "agent", "tool", "error"]; // without bookkeeping, which would rank first

export default function Search() {
  const { params } = route.value;
  const q = params.get("q") ?? "", roles = params.getAll("role").length ? params.getAll("role") : DEFAULT;
  const [found, set] = useState(null), [error, fail] = useState(null), [busy, setBusy] = useState(false);
  const field = useRef(null);
  const key = params.toString();
  useEffect(() => { document.title = "Search · Durable Sessions"; if (!q) field.current?.focus(); }, []);
  useKeys({ "/": () => field.current?.focus(), Escape: () => document.activeElement?.blur() });
  const asked = { q, role: roles, session: params.get("session"), agent: params.get("agent"), after: params.get("after"), before: params.get("before"), limit: 20, hits: SHOWN };
  const load = async (page, signal) => {
    setBusy(true);
    try {
      const more = await get("/v1/search", { ...asked, page }, { signal });
      set((old) => (page && old ? { ...more, data: [...old.data, ...more.data] } : more));
      fail(null);
      setBusy(false);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      fail(problem);
      setBusy(false);
    }
  };
  useEffect(() => {
    if (!q) { set(null); return undefined; }
    const controller = new AbortController();
    load(undefined, controller.signal);
    return () => controller.abort();
  }, [key]);
  const change = (values) => go(address("/search", { q, role: params.getAll("role"), session: params.get("session"),
    after: params.get("after"), before: params.get("before"), agent: params.get("agent"), ...values }), { replace: Boolean(q) });
  const submit = (event) => {
    event.preventDefault();
    change({ q: field.current.value.trim() });
  };
  const toggle = (role) => {
    const now = roles.includes(role) ? roles.filter((one) => one !== role) : [...roles, role];
    change({ role: now.join() === DEFAULT.join() ? [] : now });
  };
  return html`<div class="toolbar"><h1>Search</h1>
      <form onSubmit=${submit} role="search"><input ref=${field} type="search" name="q" defaultValue=${q} placeholder='Words, "a phrase", name:bash, is:error  ( / )' aria-label="Search all sessions" />
      <button type="submit">Search</button></form>
      <fieldset class="roles"><legend class="visually-hidden">Said by</legend>${ROLES.map((role) =>
        html`<label class="check"><input type="checkbox" checked=${roles.includes(role)} onChange=${() => toggle(role)} /> ${role}</label>`)}</fieldset>
      <span class="room"></span>${found && html`<span class="count">${exact(found.total_hits)} ${plural(found.total_hits, "hit")} in ${exact(found.total_sessions)} ${plural(found.total_sessions, "session")}</span>`}${q && html`<${Links} path="/v1/search" params=${asked} />`}</div>
    <div class="found">
    ${found && (!found.up_to_date || found.complete === false) && html`<p class="banner">Not all events were searched yet${found.indexed_through ? `, only those up to ${found.indexed_through}` : ": the index is being built"}.</p>`}
    ${error ? html`<${Failed} error=${error} retry=${() => load()} />` : busy && !found ? html`<${Loading} />`
      : !q ? html`<${Nothing} title="Search all sessions"><p>Every message, tool call and error, fresh at once.</p><//>`
      : found && !found.data.length ? html`<${Nothing} title="No hits"><p>Nothing said by ${roles.join(", ")} matches “${q}”.
        ${roles.length < ROLES.length && html`<button type="button" onClick=${() => change({ role: ROLES })}>Search everything</button>`}</p><//>`
      : found?.data.map((group) => html`<${Group} key=${`${group.session.id} ${key}`} group=${group} asked=${asked} />`)}
    ${found?.next_page && html`<button type="button" onClick=${() => load(found.next_page)} disabled=${busy}>More sessions</button>`}</div>`;
}

/** A session with its best hits, and how many it has in all. */
function Group({ group, asked }) {
  const { session, hits } = group, { q, role, after, before } = asked, [many, set] = useState(hits.length < SHOWN ? hits.length : null);
  useEffect(() => {
    if (many !== null || after || before) return undefined; // within a session hits are not counted by time
    const controller = new AbortController();
    get(sessionPath(session.id, "/events"), { q, role, fields: "positions" }, { signal: controller.signal }).then((found) => set(found.total_hits), () => {});
    return () => controller.abort();
  }, []);
  return html`<section class="group"><h2><a href=${sessionAddress(session.id, { q })}><bdi>${oneLine(session.title || session.id, 200)}</bdi></a>
    <span class="origin">${many !== null && html`${many > hits.length ? `${hits.length} of ` : ""}${exact(many)} ${plural(many, "hit")} · `}${ago(Date.parse(session.last_activity_at ?? session.updated_at))}</span></h2>
    <ul>${hits.map((hit) => html`<${Hit} hit=${hit} session=${session.id} q=${q} />`)}</ul></section>`;
}

const SAID = { "user.message": "User", "agent.message": "Agent", "agent.thinking": "Thinking" };

/** @returns {string} the shape of what was found, as in the session */
function glyphOf(hit) {
  if (hit.is_error === true || hit.type === "session.error") return /result/.test(hit.type) ? "failed" : "error";
  if (/result/.test(hit.type)) return "result";
  return /tool_use|tool_call/.test(hit.type) ? "tool" : { "user.message": "user", "agent.message": "agent", "agent.thinking": "thinking" }[hit.type] ?? "other";
}

function Hit({ hit, session, q }) {
  const { search } = hit;
  return html`<li><a href=${sessionAddress(session, { event: hit.id, q })}>
    <span class="kind"><${Icon} name=${glyphOf(hit)} /> <bdi>${oneLine(hit.name ?? SAID[hit.type] ?? hit.type.split(".").at(-1).replace(/_/g, " "), 60)}</bdi></span><span class="pos">#${exact(search.position)}</span>
    <span class="snippet" dir="auto">${snippet(search)}</span></a></li>`;
}

/** A snippet as text nodes; what was found is marked. Places are counted in characters, not in halves of pairs. */
function snippet({ snippet: text, highlights }) {
  const characters = Array.from(text), parts = [];
  let at = 0;
  for (const [from, to] of highlights) {
    parts.push(characters.slice(at, from).join(""), html`<mark>${characters.slice(from, to).join("")}</mark>`);
    at = to;
  }
  return [...parts, characters.slice(at).join("")];
}
