// The inspector beside a session: the selected event, and panels about all of it.
import { Json } from "../list/body.js";
import { Copy } from "../parts/copy.js";
import { html } from "../parts/html.js";
import { exact } from "../parts/number.js";
import { oneLine } from "../reading/text.js";
import { sessionAddress } from "../router.js";
import { StatePanel } from "./state.js";
import { ThreadsPanel } from "./threads.js";
import { ToolsPanel } from "./tools.js";
import { UsagePanel } from "./usage.js";

export const PANELS = [["event", "Event", EventPanel], ["state", "State", StatePanel], ["tools", "Tools", ToolsPanel], ["usage", "Usage", UsagePanel], ["threads", "Threads", ThreadsPanel]];

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
    <${Refs} event=${event} session=${one.session} />
    <p><${Copy} text=${JSON.stringify(event, null, 2)} label="Copy JSON" /> ${event.clipped && html`<span class="note">Long texts are cut.</span>`}</p>
    <div class="json"><${Json} key=${event.id} value=${event} /></div>`;
}

function Refs({ event, session }) {
  const refs = Array.isArray(event.refs) ? event.refs.filter((ref) => ref && typeof ref.id === "string") : [];
  return refs.length > 0 && html`<ul class="refs">${refs.slice(0, 100).map((ref) => html`<li><span class="kind">${oneLine(String(ref.rel ?? "refers to"), 40)}</span>
    <a href=${sessionAddress(typeof ref.session === "string" ? ref.session : session, { event: ref.id })}><bdi>${oneLine(ref.id, 80)}</bdi></a></li>`)}</ul>`;
}
