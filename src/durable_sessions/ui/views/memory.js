// Memory: the scopes of the workspace, and what is in one: its evidence, who has read it, and how it is taken back.
import { useEffect, useState } from "preact/hooks";
import { get } from "../api/client.js";
import { html } from "../parts/html.js";
import { Links } from "../parts/links.js";
import { exact } from "../parts/number.js";
import { Failed, Loading, Nothing } from "../parts/states.js";
import { minute, whole } from "../parts/time.js";
import { compact, oneLine, plural } from "../reading/text.js";
import { address, go, route, sessionAddress } from "../router.js";
import { EntryHistory } from "./memory_entry.js";

export default function Memory() {
  const { params } = route.value, scope = params.get("scope"), q = params.get("q") ?? "", at = params.get("at");
  const [found, set] = useState(null), [error, fail] = useState(null), [loads, load] = useState(0);
  const path = scope ? "/v1/memory" : "/v1/memory/scopes", asked = scope ? { scope, q, at, limit: 200 } : { limit: 200 };
  useEffect(() => {
    document.title = "Memory · Durable Sessions";
    set((old) => (old?.scope === scope ? old : null));
    fail(null);
    get(path, asked).then((page) => set({ ...page, scope, position: page.at }), fail);
  }, [scope, q, at, loads]);
  const submit = (event) => {
    event.preventDefault();
    const { q: words, at: place } = event.target.elements;
    go(address("/memory", { scope, q: words.value.trim(), at: place.value.trim() }));
  };
  return html`<div class="toolbar"><h1>Memory</h1>${scope && html`<a href=${address("/memory")}>all scopes</a> <bdi>${scope}</bdi>
      <form role="search" onSubmit=${submit} key=${`${q} ${at}`}><input type="search" name="q" defaultValue=${q} aria-label="Find in this scope" placeholder="Find in this scope" />
      <input type="text" inputmode="numeric" pattern="[0-9]*" class="narrow" name="at" defaultValue=${at ?? ""} aria-label="As of this position of the scope" placeholder="as of" title="A position of the scope: what a read that names it has seen" /><button type="submit">Find</button></form>`}
      <span class="room"></span><${Links} path=${path} params=${asked} /></div>
    <div class="found">${at && html`<p class="banner">This is how it was at position ${at} of the scope. <a href=${address("/memory", { scope, q })}>As it is now</a></p>`}
    ${error ? html`<${Failed} error=${error} retry=${() => load(loads + 1)} />` : !found || found.scope !== scope ? html`<${Loading} />`
      : !found.data.length ? html`<${Nothing} title=${scope ? "Nothing is remembered here" : "No scopes yet"}><p>Sessions write with <code>ds.memory.written</code>. <a href=${address("/docs/memory")} target="_self">How memory works</a></p><//>`
      : scope ? html`<ul class="entries">${found.data.map((entry) => html`<${Entry} key=${`${entry.session} ${entry.id}`} entry=${entry} isOpen=${params.get("entry") === entry.id} at=${at} reload=${() => load(loads + 1)} />`)}</ul>`
      : html`<${Scopes} scopes=${found.data} />`}
    ${found?.next_page && html`<p class="note">There is more than is shown here.</p>`}</div>`;
}

function Scopes({ scopes }) {
  return html`<table class="plain-table wide"><thead><tr><th>Scope</th><th class="n">Entries</th><th class="n">Records</th></tr></thead><tbody>${scopes.map((one) =>
    html`<tr key=${one.scope}><td><a href=${address("/memory", { scope: one.scope })}><bdi>${oneLine(one.scope, 200)}</bdi></a></td><td class="n">${exact(one.entries)}</td><td class="n">${exact(one.position)}</td></tr>`)}</tbody></table>`;
}

function Entry({ entry, isOpen, at, reload }) {
  const { params } = route.value, made = Date.parse(entry.created_at);
  const toggle = () => go(address("/memory", { scope: entry.scope, q: params.get("q"), at, entry: isOpen ? null : entry.id }), { replace: true });
  return html`<li class="entry"><button type="button" class="quiet-button entry-key" aria-expanded=${isOpen} onClick=${toggle}><bdi>${oneLine(String(entry.key ?? ""), 200)}</bdi></button>
      ${entry.kind && html`<span class="chip">${oneLine(String(entry.kind).replace(/_/g, " "), 40)}</span>`}
    <p class="as-is"><bdi>${oneLine(compact(entry.value), 4000)}</bdi></p>
    <p class="origin">${[entry.why && `why: ${oneLine(compact(entry.why).replace(/_/g, " "), 300)}`, typeof entry.confidence === "number" && `confidence ${entry.confidence}`, entry.actor && `by ${oneLine(String(entry.actor), 80)}`].filter(Boolean).join(" · ")}
      ${made ? html` · <time datetime=${whole(made)} title=${whole(made)}>${minute(made)}</time>` : ""} · ${entry.reads ? `${exact(entry.reads)} ${plural(entry.reads, "read")}` : "never read"}
      ${entry.session && html` · <a href=${sessionAddress(entry.session, { event: entry.id })}>where it was learned</a>`}
      ${(entry.because ?? []).slice(0, 5).map((ref, number) => html` · <a href=${sessionAddress(ref.session, { event: ref.id })}>because of ${entry.because.length > 1 ? number + 1 : "this"}</a>`)}</p>
    ${isOpen && html`<${EntryHistory} entry=${entry} isPast=${Boolean(at)} reload=${reload} />`}</li>`;
}
