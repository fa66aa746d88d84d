// One approval: the question, the call that it is about, and what a person decides. Never by one key, never in bulk.
import { useEffect, useRef, useState } from "preact/hooks";
import { append, declaredName, get, sessionPath } from "../api/client.js";
import { may, whoami } from "../api/whoami.js";
import { html } from "../parts/html.js";
import { Icon } from "../parts/icons.js";
import { ago, whole } from "../parts/time.js";
import { pretty, oneLine } from "../reading/text.js";
import { sessionAddress } from "../router.js";
import { DeclaredName } from "./declared_name.js";

const VERBS = { approve: "Approve", reject: "Reject", edit: "Edit", respond: "Respond" };

/** @returns {string} why this reader may not decide, else empty */
function obstacle(generators) {
  const who = whoami.value;
  if (!who) return "Sign in first.";
  if (who.via === "local") return generators.includes(declaredName.value) ? `${declaredName.value} has generated here: nobody approves own work.` : "";
  if (!may("judge")) return `This needs a key with the role evaluator or admin; yours is ${who.role}. Ask an admin of ${who.workspace}.`;
  return generators.includes(who.principal) ? `${who.principal} has generated here: nobody approves own work. Somebody else with the role evaluator may.` : "";
}

export function Decision({ request, session, calls = [], generators = [], done, isPast, title }) {
  const [choice, choose] = useState(null), [problem, tell] = useState(""), [busy, setBusy] = useState(false);
  const key = useRef(crypto.randomUUID());
  const local = whoami.value?.via === "local";
  const about = calls.find((one) => one.id === (request.about?.id ?? request.about)) ?? null;
  const isCall = about !== null && about.id === request.id; // a call that asks by itself, before it runs
  const why = isPast ? "This is how it was; go to the end to decide." : obstacle(generators);
  const [asked, setAsked] = useState(0);
  useEffect(() => { get(sessionPath(session, `/events/${encodeURIComponent(request.id)}`)).then((event) => setAsked(Date.parse(event.original_created_at ?? event.created_at) || 0), () => {}); }, [request.id]);
  const send = async (event) => {
    event.preventDefault();
    const { reason, payload, name } = event.target.elements;
    if (local) declaredName.value = name.value.trim();
    setBusy(true);
    try {
      const made = isCall ? confirmation(request.id, choice, reason.value.trim())
        : { type: "ds.approval.decided", decision: choice, reason: reason.value.trim(), request: request.id };
      if (payload?.value.trim()) made.payload = parsed(payload.value);
      await append(session, made, key.current);
      choose(null);
      done?.();
    } catch (error) {
      tell(error.code === "nothing_pending" ? `Somebody was faster: ${error.message}` : error.message);
      key.current = crypto.randomUUID();
      if (error.code === "nothing_pending") done?.();
    }
    setBusy(false);
  };
  return html`<article class="decision"><h2><${Icon} name="approval" /> <bdi>${oneLine(request.question, 1000)}</bdi></h2>
    <p class="origin">${title && html`<a href=${sessionAddress(session, { event: request.id })}><bdi>${title}</bdi></a> · `}asked by ${oneLine(String(request.actor ?? "somebody"), 80)}${isCall ? ", and does not run before" : request.blocking === false ? ", while the work goes on" : ""}${asked ? html` · <time datetime=${whole(asked)} title=${whole(asked)}>waiting ${ago(asked)}</time>` : ""} · <a href=${sessionAddress(session, { event: request.id })}>event</a></p>
    ${about && html`<div class="block"><div class="caption">${about.name}, effect ${about.effect}</div><pre dir="ltr">${pretty(about.input).slice(0, 20000)}</pre></div>`}
    ${why ? html`<p class="note">${why}</p>` : html`<div class="choices">${(request.options ?? ["approve", "reject"]).map((option) =>
      html`<button type="button" aria-expanded=${choice === option} onClick=${() => { choose(choice === option ? null : option); tell(""); }}>${VERBS[option] ?? oneLine(option, 40)}</button>`)}</div>`}
    ${choice && html`<form onSubmit=${send}>
      ${local && html`<${DeclaredName} />`}
      ${(choice === "edit" || choice === "respond") && html`<label>${choice === "edit" ? "Instead, as JSON or text" : "Answer"} <textarea name="payload" rows="3" required></textarea></label>`}
      <label>Reason <textarea name="reason" rows="2" required autofocus></textarea></label>
      <button type="submit" disabled=${busy}>${VERBS[choice] ?? choice}: ${oneLine(request.question, 60)}</button></form>`}
    ${problem && html`<p class="bad" role="alert">${problem}</p>`}</article>`;
}

function parsed(text) {
  try { return JSON.parse(text); } catch { return text; }
}

/** The answer to a call that asks before it runs, as harnesses of Managed Agents expect it. */
function confirmation(call, choice, reason) {
  const allows = choice === "approve";
  return { type: "user.tool_confirmation", tool_use_id: call, result: allows ? "allow" : "deny", ...(allows ? { metadata: { reason } } : { deny_message: reason }) };
}
