// What is behind an entry of memory: how it came about, who has read it, and taking it back.
import { useEffect, useRef, useState } from "preact/hooks";
import { append, declaredName, get, sessionPath } from "../api/client.js";
import { may, whoami } from "../api/whoami.js";
import { html } from "../parts/html.js";
import { minute, whole } from "../parts/time.js";
import { oneLine } from "../reading/text.js";
import { sessionAddress } from "../router.js";
import { DeclaredName } from "./declared_name.js";

const RECORDS = 1000;
const eventOf = (id) => { const [session, ...rest] = id.slice("event:".length).split("/"); return { session, event: rest.join("/") }; };
/** The session that holds what a person decides outside of a run. */
const deskOf = (principal) => `desk:${principal.replace(/[^\w.-]/g, (one) => [...new TextEncoder().encode(one)].map((byte) => `@${byte.toString(16).padStart(2, "0").toUpperCase()}`).join(""))}`;

export function EntryHistory({ entry, isPast, reload }) {
  const [found, set] = useState(null), [problem, tell] = useState("");
  useEffect(() => {
    Promise.all([get("/v1/memory/log", { scope: entry.scope, limit: RECORDS }),
      entry.session ? get(sessionPath(entry.session, `/events/${encodeURIComponent(entry.id)}/impact`)) : null])
      .then(([log, impact]) => set({ log, impact }), (error) => tell(error.message));
  }, [entry.id]);
  if (problem) return html`<p class="bad" role="alert">${problem}</p>`;
  if (!found) return null;
  const writes = new Set(found.log.data.filter((one) => one.key === entry.key).map((one) => one.id));
  const history = found.log.data.filter((one) => one.key === entry.key || writes.has(one.write));
  return html`<div class="entry-more"><h2>History of this key</h2><ul>${history.map((one) => html`<li class="item"><span class="kind">${one.type.replace(/_/g, " ")}</span>
        <${Moment} at=${one.created_at} /> by <bdi>${oneLine(String(one.actor ?? "somebody"), 80)}</bdi>${one.reason && html`: <bdi>${oneLine(String(one.reason), 300)}</bdi>`}
        ${one.session && html` <a class="pos" href=${sessionAddress(one.session, { event: one.id })}>event</a>`}</li>`)}</ul>
    ${found.log.next_page && html`<p class="note">Of the first ${RECORDS.toLocaleString("en-US")} records of the scope.</p>`}
    ${found.impact && html`<${Impact} impact=${found.impact} of=${entry.id} />`}
    ${!isPast && entry.session && html`<${RollBack} entry=${entry} readers=${found.impact?.readers.length ?? 0} done=${reload} />`}</div>`;
}

function Moment({ at }) {
  const ms = Date.parse(at);
  return ms ? html`<time datetime=${whole(ms)} title=${whole(ms)}>${minute(ms)}</time>` : null;
}

/** Who said that it was used, and apart from that what may have been influenced. */
function Impact({ impact, of }) {
  const readers = impact.readers ?? [], known = new Set(readers.map((one) => one.id).concat(of));
  const flow = impact.nodes.filter((node) => node.kind === "event" && !known.has(eventOf(node.id).event));
  return html`<div class="two-columns"><section><h2>Who has read it, and for what</h2>${readers.length ? html`<ul>${readers.slice(0, 100).map((one) => html`<li class="item"><span class="kind">${oneLine(one.influence ?? "unknown", 40)}</span>
        <a href=${sessionAddress(one.session, { event: one.id })}><bdi>${oneLine(one.session, 120)}</bdi></a></li>`)}</ul>` : html`<p class="note">Nobody yet.</p>`}</section>
    <section><h2>What may have followed from it</h2>${flow.length ? html`<ul>${flow.slice(0, 100).map((node) => { const { session, event } = eventOf(node.id); return html`<li class="item"><a href=${sessionAddress(session, { event })}><bdi>${oneLine(node.label, 160)}</bdi></a></li>`; })}</ul>`
      : html`<p class="note">Nothing that names it.</p>`}</section></div>
    ${(impact.truncated || !impact.up_to_date) && html`<p class="note">${impact.truncated ? "There is more than is shown here." : "Not everything was searched yet."}</p>`}`;
}

/** Nothing is taken back by one key: a reason is asked for, and who has acted on it stands above. */
function RollBack({ entry, readers, done }) {
  const [open, toggle] = useState(false), [problem, tell] = useState(""), [busy, setBusy] = useState(false), key = useRef(crypto.randomUUID());
  const who = whoami.value, isLocal = who?.via === "local";
  if (!may("append")) return html`<p class="note">Taking it back needs a key with the role writer.</p>`;
  const send = async (event) => {
    event.preventDefault();
    const { reason, name } = event.target.elements;
    if (isLocal) declaredName.value = name.value.trim();
    setBusy(true);
    try {
      await append(deskOf(isLocal ? declaredName.value : who.principal), { type: "ds.memory.rolled_back", write: entry.id, session: entry.session, reason: reason.value.trim() }, key.current);
      done();
    } catch (error) {
      tell(error.message);
      key.current = crypto.randomUUID();
    }
    setBusy(false);
  };
  return html`<p><button type="button" aria-expanded=${open} onClick=${() => toggle(!open)}>Take it back</button></p>
    ${open && html`<form class="asked decision" onSubmit=${send}><p class="note">${readers ? `${readers === 1 ? "One read has" : `${readers} reads have`} returned it; what was done with it stays as it is. ` : ""}From then on it is in no read and no search; the log keeps it.</p>
      ${isLocal && html`<${DeclaredName} />`}
      <label>Reason <textarea name="reason" rows="2" required></textarea></label>${problem && html`<p class="bad" role="alert">${problem}</p>`}<button type="submit" disabled=${busy}>Take back ${oneLine(String(entry.key), 60)}</button></form>`}`;
}
