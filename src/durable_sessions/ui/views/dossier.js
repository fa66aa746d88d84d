// The dossier of a session: what is missing first, then each section with its events, and the signed file.
import { useEffect, useState } from "preact/hooks";
import { get, sessionPath, url } from "../api/client.js";
import { Copy } from "../parts/copy.js";
import { html } from "../parts/html.js";
import { Links } from "../parts/links.js";
import { Failed, Loading } from "../parts/states.js";
import { compact, oneLine, shellWord } from "../reading/text.js";
import { go, route, sessionAddress } from "../router.js";

const KINDS = ["engineering", "research", "trading", "report"];
const words = (name) => name.replace(/_/g, " ");

export default function Dossier() {
  const { id, params } = route.value, kind = KINDS.includes(params.get("kind")) ? params.get("kind") : "engineering", at = params.get("at");
  const [found, set] = useState(null), [error, fail] = useState(null);
  useEffect(() => {
    document.title = `Dossier of ${id} · Durable Sessions`;
    set(null);
    get(sessionPath(id, "/dossier"), { kind, at }).then(set, fail);
  }, [id, kind, at]);
  const file = (format) => url(sessionPath(id, "/dossier"), { kind, at, format });
  const verify = `ds dossier verify ${shellWord(`${id}.zip`)}`;
  return html`<div class="toolbar"><h1>Dossier</h1><a href=${sessionAddress(id)}><bdi>${id}</bdi></a>
      <label class="choice"><span>for</span><select value=${kind} onChange=${(event) => go(sessionAddress(id, { kind: event.target.value, at }, "/dossier"), { replace: true })}>${KINDS.map((one) => html`<option value=${one}>${one}</option>`)}</select></label><span class="room"></span>
      <a href=${file("zip")} download=${`${id}.zip`}>Download zip</a><a href=${file("md")} target="_blank" rel="noopener">Markdown</a><a href=${file("json")} target="_blank" rel="noopener">JSON</a><${Links} path=${sessionPath(id, "/dossier")} params=${{ kind, at }} /></div>
    <div class="found">${error ? html`<${Failed} error=${error} />` : !found ? html`<${Loading} />` : html`
      ${found.missing.length > 0 && html`<p class="bad"><b>Missing:</b> ${found.missing.map(words).join(", ")}</p>`}
      ${found.principals === "declared" && html`<p class="warn-text">Principals are who they said they were: part of this is older than the first key.</p>`}
      <p class="note">Whoever gets the zip file verifies it offline: <code>${verify}</code> <${Copy} text=${verify} /></p>
      ${Object.entries(found.sections).map(([name, section]) => html`<section class="group"><h2>${words(name)} <span class="origin">${section.items?.length ?? 0}</span></h2>
        <ul>${(section.items ?? []).slice(0, 200).map((item) => html`<li class="item"><${Item} item=${item} />
          ${(item.refs ?? []).slice(0, 8).map((ref) => html` <a class="pos" href=${sessionAddress(ref.session, { event: ref.id })}>event</a>`)}</li>`)}</ul>
        ${(section.items?.length ?? 0) > 200 && html`<p class="note">And ${section.items.length - 200} more, in the file.</p>`}</section>`)}`}</div>`;
}

/** What an item says: a text, or its members by name. A digest is shown by its beginning, all of it on hover. */
function Item({ item }) {
  if (typeof item.text === "string") return html`<bdi>${oneLine(item.text, 600)}</bdi>`;
  const members = Object.entries(item).filter(([name, value]) => name !== "refs" && value !== null && value !== undefined);
  return members.map(([name, value], at) => html`${at > 0 && " "}<span class="member"><span class="member-name">${words(oneLine(name, 60))}</span> ${
    name === "sha256" ? html`<code title=${String(value)}>${oneLine(String(value), 80).slice(0, 12)}…</code>` : html`<bdi>${oneLine(compact(value), 400)}</bdi>`}</span>`);
}
