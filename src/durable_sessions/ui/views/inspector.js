// The inspector beside a session: the selected event, and panels about all of it.
import { useEffect, useState } from "preact/hooks";
import { ask, get, sessionPath } from "../api/client.js";
import { Json, Part } from "../list/body.js";
import { Copy } from "../parts/copy.js";
import { html } from "../parts/html.js";
import { exact } from "../parts/number.js";
import { Failed } from "../parts/states.js";
import { clean, oneLine } from "../reading/text.js";
import { route, sessionAddress } from "../router.js";
import { StatePanel } from "./state.js";
import { ThreadsPanel } from "./threads.js";
import { ToolsPanel } from "./tools.js";
import { UsagePanel } from "./usage.js";

export const PANELS = [["event", "Event", EventPanel], ["state", "State", StatePanel], ["tools", "Tools", ToolsPanel], ["usage", "Usage", UsagePanel], ["threads", "Threads", ThreadsPanel], ["raw", "Raw", RawPanel]];
const SETTLED_MS = 150, NEWEST = 20, LINKS_MAX = 100;

export function Inspector({ panel, panels, one, info, selected, change, leap }) {
  const [, , Panel] = panels.find(([name]) => name === panel) ?? panels[0];
  return html`<aside class="inspector" aria-label="Inspector"><div class="tabs"><div role="tablist" aria-label="What is inspected">${panels.map(([name, title]) =>
    html`<button type="button" role="tab" aria-selected=${name === panel} onClick=${() => change({ panel: name })}>${title}</button>`)}</div>
    <span class="room"></span><button type="button" class="quiet-button" onClick=${() => change({ panel: null })}>Close</button></div>
    <div class="panel" role="tabpanel" tabindex="0"><${Panel} one=${one} info=${info} selected=${selected} change=${change} leap=${leap} /></div></aside>`;
}

function EventPanel({ one, selected }) {
  const event = selected.value === null ? null : one.pages.event(selected.value);
  if (!event) return html`<p class="note">Select an event: <kbd>j</kbd> and <kbd>k</kbd>, or a click.</p>`;
  return html`<h2>${oneLine(event.type ?? "event", 80)} <span class="origin">#${exact(selected.value)}</span></h2>
    <${Refs} event=${event} session=${one.session} /><${Followed} key=${event.id} event=${event} one=${one} />
    <p><${Copy} text=${JSON.stringify(event, null, 2)} label="Copy JSON" /> ${event.clipped && html`<span class="note">Long texts are cut.</span>`}</p>
    <div class="json"><${Json} key=${event.id} value=${event} /></div>`;
}

/** Where an event is: in the session that is read, what else is seen of it stays. */
function placeOf(session, event, here) {
  const kept = session === here ? ["q", "hide", "show", "only", "panel"].map((name) => [name, route.value.params.get(name)]) : [];
  return sessionAddress(session, { ...Object.fromEntries(kept), event });
}

/** What an event refers to. */
function Refs({ event, session }) {
  const refs = Array.isArray(event.refs) ? event.refs.filter((ref) => ref && typeof ref.id === "string") : [];
  return refs.length > 0 && html`<ul class="refs">${refs.slice(0, LINKS_MAX).map((ref) => html`<li><span class="kind">${oneLine(String(ref.rel ?? "refers to"), 40)}</span>
    <a href=${placeOf(typeof ref.session === "string" ? ref.session : session, ref.id, session)}><bdi>${oneLine(ref.id, 80)}</bdi></a></li>`)}</ul>`;
}

/** What refers to an event, in any session. */
function Followed({ event, one }) {
  const [found, set] = useState(null);
  useEffect(() => { // whoever moves on is not asked for
    const read = () => get(sessionPath(one.session, `/events/${encodeURIComponent(event.id)}/impact`), { depth: 1 }).then(set, () => {});
    const timer = setTimeout(read, SETTLED_MS);
    return () => clearTimeout(timer);
  }, []);
  const nodes = (found?.nodes ?? []).slice(1).filter((node) => node.kind === "event");
  return nodes.length > 0 && html`<ul class="refs from-others">${nodes.slice(0, LINKS_MAX).map((node) => {
    const [session, ...rest] = node.id.slice("event:".length).split("/"), rel = found.edges.find((edge) => edge.from === node.id)?.rel ?? "refers to this";
    return html`<li><span class="kind">${oneLine(rel.replace(/_/g, " "), 40)} ←</span> <a href=${placeOf(session, rest.join("/"), one.session)}><bdi>${oneLine(node.label, 80)}</bdi></a></li>`;
  })}</ul>`;
}

/** The selected event byte for byte as it is stored; without one, the newest as they come. */
function RawPanel({ one, selected }) {
  const [text, set] = useState(null), [error, fail] = useState(null);
  const at = selected.value ?? -1, newest = at < 0 ? one.outline.events : 0;
  useEffect(() => {
    const from = at < 0 ? Math.max(0, one.outline.events - NEWEST) : at;
    const read = async () => {
      const page = await get(sessionPath(one.session, "/events"), { from, limit: at < 0 ? NEWEST : 1, clip: at < 0 ? 4096 : 1024 });
      if (at < 0) return page.data.map((event) => JSON.stringify(event)).join("\n");
      return (await ask(sessionPath(one.session, `/events/${encodeURIComponent(page.data[0].id)}`))).text();
    };
    const timer = setTimeout(() => read().then((found) => { set(found); fail(null); }, fail), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [at, newest]);
  if (error) return html`<${Failed} error=${error} />`;
  return text !== null && html`<h2>${at < 0 ? "The newest events, as they come" : html`As it is stored <span class="origin">#${exact(at)}</span>`}</h2>
    <${Part} key=${at} part=${{ kind: "pre", text: clean(text), raw: text }} />`;
}
