// What waits for a person, over all sessions; and what was decided.
import { useEffect, useState } from "preact/hooks";
import { get, sessionPath } from "../api/client.js";
import { follow } from "../api/live.js";
import { html } from "../parts/html.js";
import { Failed, Loading, Nothing } from "../parts/states.js";
import { oneLine } from "../reading/text.js";
import { address, route, sessionAddress } from "../router.js";
import { Decision } from "./decision.js";

const LOOKED_AT = 100;

async function pending() {
  const page = await get("/v1/sessions", { lifecycle: "paused", limit: LOOKED_AT, sort: "activity", order: "asc" });
  const waiting = page.data.filter((one) => one.stops.some((stop) => stop.kind === "approval"));
  const states = await Promise.all(waiting.map((one) => get(sessionPath(one.id, "/state")).catch(() => null)));
  return { more: Boolean(page.next_page), data: states.flatMap((state, at) => (state?.approvals.pending ?? []).map((request) => ({ request, state, session: waiting[at] }))) };
}

async function decided() {
  const found = await get("/v1/search", { q: "type:ds.approval.decided", limit: 50, hits: 5 });
  return { more: Boolean(found.next_page), upToDate: found.up_to_date, data: found.data.flatMap((group) => group.hits.map((hit) => ({ hit, session: group.session }))) };
}

export default function Approvals() {
  const isDecided = route.value.params.get("state") === "decided";
  const [found, set] = useState(null), [error, fail] = useState(null);
  const load = () => (isDecided ? decided() : pending()).then((made) => { set(made); fail(null); }, fail);
  useEffect(() => {
    document.title = "Approvals · Durable Sessions";
    set(null);
    load();
    if (isDecided) return undefined;
    let timer = 0;
    const stop = follow("/v1/sessions", () => ({ live: "sse" }), { state: () => {}, ended: (status) => (status === 401 ? "key revoked" : null),
      frame: ({ event }) => { if (event === "sessions") { clearTimeout(timer); timer = setTimeout(load, 300); } } });
    return () => { clearTimeout(timer); stop(); };
  }, [isDecided]);
  return html`<div class="toolbar"><h1>Approvals</h1><nav class="switch" aria-label="Which"><a href=${address("/approvals")} aria-current=${!isDecided ? "page" : null}>pending</a>
      <a href=${address("/approvals", { state: "decided" })} aria-current=${isDecided ? "page" : null}>decided</a></nav></div>
    <div class="found">${found?.more && html`<p class="banner">There are more: only the first ${isDecided ? 50 : LOOKED_AT} sessions were looked at.</p>`}
    ${error ? html`<${Failed} error=${error} retry=${load} />` : !found ? html`<${Loading} />`
      : !found.data.length ? html`<${Nothing} title=${isDecided ? "Nothing was decided yet" : "Nothing waits for you"}><p>Agents ask with <code>ds.approval.requested</code>.</p><//>`
      : isDecided ? html`<ul class="decided">${found.data.map(({ hit, session }) => html`<li><a href=${sessionAddress(session.id, { event: hit.id })}><b>${oneLine(String(hit.decision ?? ""), 40)}</b> <bdi>${oneLine(String(hit.reason ?? ""), 300)}</bdi></a> <span class="origin">by ${oneLine(String(hit.actor ?? ""), 80)} · ${hit.created_at} · ${oneLine(session.title || session.id, 80)}</span></li>`)}</ul>`
      : found.data.map(({ request, state, session }) => html`<${Decision} key=${session.id + request.id} request=${request} session=${session.id} title=${oneLine(session.title || session.id, 120)}
          calls=${state.calls.open} generators=${state.generators} done=${load} />`)}</div>`;
}
