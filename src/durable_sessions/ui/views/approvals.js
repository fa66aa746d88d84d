// What waits for a person, over all sessions; and what was decided.
import { useEffect, useState } from "preact/hooks";
import { get, sessionPath } from "../api/client.js";
import { follow } from "../api/live.js";
import { html } from "../parts/html.js";
import { Icon } from "../parts/icons.js";
import { Links } from "../parts/links.js";
import { Failed, Loading, Nothing } from "../parts/states.js";
import { minute, whole } from "../parts/time.js";
import { exact } from "../parts/number.js";
import { oneLine } from "../reading/text.js";
import { address, route, sessionAddress } from "../router.js";
import { Decision } from "./decision.js";

const LOOKED_AT = 100, DECIDED = { q: "type:ds.approval.decided", limit: 50, hits: 5 };

const SAID = { approve: "approved", reject: "rejected", edit: "edited", respond: "answered" };
const WAITING = { waits_for: "approval", limit: LOOKED_AT, sort: "activity", order: "asc" };

/** What waits in a page of sessions, those that have waited longest first. A session that cannot be read is said. */
async function pending(page) {
  const { data: waiting, next_page: next } = await get("/v1/sessions", { ...WAITING, page });
  const states = await Promise.all(waiting.map((one) => get(sessionPath(one.id, "/state")).catch((problem) => ({ problem }))));
  return { next, unread: states.filter((state) => state.problem && state.problem.status !== 404).length,
    data: states.flatMap((state, at) => (state.approvals?.pending ?? []).map((request) => ({ request, state, session: waiting[at] }))) };
}

async function decided() {
  const found = await get("/v1/search", DECIDED);
  return { next: found.next_page, upToDate: found.up_to_date, data: found.data.flatMap((group) => group.hits.map((hit) => ({ hit, session: group.session })))
    .sort((a, b) => (a.hit.created_at < b.hit.created_at ? 1 : -1)) };
}

export default function Approvals() {
  const isDecided = route.value.params.get("state") === "decided";
  const [found, set] = useState(null), [error, fail] = useState(null);
  const load = () => (isDecided ? decided() : pending()).then((made) => { set(made); fail(null); }, fail);
  const more = () => pending(found.next).then((made) => set({ ...made, unread: found.unread + made.unread, data: [...found.data, ...made.data] }), fail);
  useEffect(() => {
    document.title = "Approvals · Durable Sessions";
    set(null);
    load();
    if (isDecided) return undefined;
    let timer = 0;
    const stop = follow("/v1/sessions", () => ({ live: "sse" }), { state: (name) => name === "looking" && load(), ended: (status) => (status === 401 ? "key revoked" : null),
      frame: ({ event }) => { if (event === "sessions") { clearTimeout(timer); timer = setTimeout(load, 300); } } });
    return () => { clearTimeout(timer); stop(); };
  }, [isDecided]);
  return html`<div class="toolbar"><h1>Approvals</h1><nav class="switch" aria-label="Which"><a href=${address("/approvals")} aria-current=${!isDecided ? "page" : null}>pending</a>
      <a href=${address("/approvals", { state: "decided" })} aria-current=${isDecided ? "page" : null}>decided</a></nav><span class="room"></span>
      <${Links} path=${isDecided ? "/v1/search" : "/v1/sessions"} params=${isDecided ? DECIDED : WAITING} /></div>
    <div class="found">${found?.unread > 0 && html`<p class="banner" role="alert">What ${exact(found.unread)} more ${found.unread === 1 ? "session waits" : "sessions wait"} for cannot be read now. <button type="button" class="quiet-button" onClick=${load}>Try again</button></p>`}
    ${found?.upToDate === false && html`<p class="banner">Not all events were searched yet.</p>`}
    ${isDecided && found?.next && html`<p class="banner">Decisions of the best ${DECIDED.limit} sessions of the search; there are more.</p>`}
    ${error ? html`<${Failed} error=${error} retry=${load} />` : !found ? html`<${Loading} />`
      : !found.data.length ? html`<${Nothing} title=${isDecided ? "Nothing was decided yet" : "Nothing waits for you"}><p>Agents ask with <code>ds.approval.requested</code>, and what they ask appears here at once. <a href=${address("/docs/howto/budgets-and-approvals")} target="_self">How approvals work</a></p><//>`
      : isDecided ? html`<ul class="decided">${found.data.map(({ hit, session }) => html`<li><a href=${sessionAddress(session.id, { event: hit.id })}><${Icon} name=${({ approve: "pass", reject: "fail" })[hit.decision] ?? "approval"} /> <b>${SAID[hit.decision] ?? oneLine(String(hit.decision ?? ""), 40)}</b> <bdi>${oneLine(String(hit.reason ?? ""), 300)}</bdi></a> <span class="origin">by ${oneLine(String(hit.actor ?? ""), 80)} · <time datetime=${hit.created_at} title=${whole(Date.parse(hit.created_at))}>${minute(Date.parse(hit.created_at))}</time> · <bdi>${oneLine(session.title || session.id, 80)}</bdi></span></li>`)}</ul>`
      : found.data.map(({ request, state, session }) => html`<${Decision} key=${session.id + request.id} request=${request} session=${session.id} title=${oneLine(session.title || session.id, 120)}
          calls=${state.calls.open} generators=${state.generators} done=${load} />`)}
    ${!isDecided && found?.next && html`<button type="button" onClick=${more}>More sessions</button>`}</div>`;
}
