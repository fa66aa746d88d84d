// Memory: the scopes of the workspace, and what is in one, with the evidence.
import { useEffect, useState } from "preact/hooks";
import { get, sessionPath } from "../api/client.js";
import { html } from "../parts/html.js";
import { Failed, Loading, Nothing } from "../parts/states.js";
import { compact, oneLine } from "../reading/text.js";
import { address, go, route, sessionAddress } from "../router.js";

export default function Memory() {
  const { params } = route.value, scope = params.get("scope"), q = params.get("q") ?? "";
  const [found, set] = useState(null), [error, fail] = useState(null);
  useEffect(() => {
    document.title = "Memory · Durable Sessions";
    set(null);
    fail(null);
    const read = scope ? get("/v1/memory", { scope, q, at: params.get("at"), limit: 200 }) : get("/v1/memory/scopes", { limit: 200 });
    read.then((page) => set({ scope, ...page }), fail);
  }, [scope, q, params.get("at")]);
  const submit = (event) => {
    event.preventDefault();
    go(address("/memory", { scope, q: event.target.elements.q.value.trim() }));
  };
  return html`<div class="toolbar"><h1>Memory</h1>${scope && html`<a href=${address("/memory")}>all scopes</a> <bdi>${scope}</bdi>
      <form role="search" onSubmit=${submit}><input type="search" name="q" defaultValue=${q} key=${q} aria-label="Find in this scope" placeholder="Find in this scope" /><button type="submit">Find</button></form>`}</div>
    <div class="found">${error ? html`<${Failed} error=${error} />` : !found || found.scope !== scope ? html`<${Loading} />`
      : !found.data.length ? html`<${Nothing} title=${scope ? "Nothing is remembered here" : "No scopes yet"}><p>Sessions write with <code>ds.memory.written</code>.</p><//>`
      : scope ? html`<ul class="entries">${found.data.map((entry) => html`<${Entry} key=${entry.id ?? entry.key} entry=${entry} />`)}</ul>`
      : html`<ul class="decided">${found.data.map((one) => { const name = one.scope ?? one.id ?? one; return html`<li><a href=${address("/memory", { scope: name })}><bdi>${oneLine(String(name), 200)}</bdi></a></li>`; })}</ul>`}
    ${found?.next_page && html`<p class="note">There is more than is shown here.</p>`}</div>`;
}

function Entry({ entry }) {
  const [impact, setImpact] = useState(null), [problem, tell] = useState("");
  const session = entry.session ?? entry.source?.session, id = entry.write ?? entry.id ?? entry.event;
  const look = () => get(sessionPath(session, `/events/${encodeURIComponent(id)}/impact`)).then(setImpact, (error) => tell(error.message));
  return html`<li class="entry"><b><bdi>${oneLine(String(entry.key ?? ""), 200)}</bdi></b> ${entry.kind && html`<span class="chip">${oneLine(String(entry.kind), 40)}</span>`}
    <p class="as-is"><bdi>${oneLine(compact(entry.value), 4000)}</bdi></p>
    <p class="origin">${[entry.why && `because ${oneLine(compact(entry.why), 300)}`, entry.confidence !== undefined && entry.confidence !== null && `confidence ${entry.confidence}`, entry.actor && `by ${oneLine(String(entry.actor), 80)}`, entry.at ?? entry.created_at].filter(Boolean).join(" · ")}
    ${session && id && html` · <a href=${sessionAddress(session, { event: id })}>where it was learned</a> · <button type="button" class="quiet-button" onClick=${look}>Who has read it?</button>`}</p>
    ${problem && html`<p class="bad">${problem}</p>`}
    ${impact && html`<p class="note">${impact.nodes?.filter((node) => node.type === "session" || node.kind === "session").map((node) => oneLine(String(node.session ?? node.id), 80)).join(", ") || "Nobody yet."}${impact.truncated ? " And more." : ""}</p>`}</li>`;
}
