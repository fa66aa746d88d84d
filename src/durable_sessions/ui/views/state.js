// The state of a session, as of now or as of the selected event: what it waits for first. Every line ends in its event.
import { useEffect, useState } from "preact/hooks";
import { get, sessionPath } from "../api/client.js";
import { Decision } from "./decision.js";
import { html } from "../parts/html.js";
import { Icon } from "../parts/icons.js";
import { exact } from "../parts/number.js";
import { Failed } from "../parts/states.js";
import { compact, oneLine } from "../reading/text.js";
import { sessionAddress } from "../router.js";

const MARKS = { pass: "pass", fail: "fail" };

export function StatePanel({ one, selected }) {
  const [asOf, setAsOf] = useState(false), [state, set] = useState(null), [error, fail] = useState(null);
  const at = asOf && selected.value !== null ? selected.value + 1 : undefined;
  const events = one.outline.events;
  const load = () => get(sessionPath(one.session, "/state"), { at }).then((found) => { set(found); fail(null); }, fail);
  useEffect(() => {
    const timer = setTimeout(load, 120); // scrubbing asks for the last place only
    return () => clearTimeout(timer);
  }, [at, asOf ? 0 : events]);
  if (error) return html`<${Failed} error=${error} retry=${load} />`;
  return html`<label class="check"><input type="checkbox" checked=${asOf} onChange=${(event) => setAsOf(event.target.checked)} />
      as of the selected event${at === undefined ? "" : ` (#${exact(at - 1)})`}</label>
    ${state && html`<${State} state=${state} session=${one.session} reload=${load} isPast=${at !== undefined} />`}`;
}

function Section({ title, children }) {
  return html`<section class="state-part"><h2>${title}</h2>${children}</section>`;
}

const Event = ({ session, id }) => id && html` <a class="pos" href=${sessionAddress(session, { event: id })}>event</a>`;
const said = (value, most = 300) => oneLine(compact(value), most);

/** What was changed in how a feature is checked: its verdicts before that do not count. */
const changesOf = (feature, warnings) => warnings.filter((one) => one.code === "check_changed" && one.message.startsWith(`The check of ${feature.id} was `));

export function State({ state, session, reload, isPast }) {
  const { approvals, outcome, budget, goal, facts, lease, route, sandbox, sandboxes, checkpoint, artifacts, warnings, calls } = state;
  const passing = outcome?.features.filter((one) => one.passing).length;
  const known = Object.entries(facts).filter(([, fact]) => fact.kind !== "goal").slice(0, 200);
  return html`
    ${state.stops.length > 0 && html`<${Section} title="Waits for"><ul>${state.stops.map((stop) => html`<li><${Icon} name="approval" /> ${said(stop.kind ?? "stopped").replace(/_/g, " ")}<${Event} session=${session} id=${stop.id} /></li>`)}</ul><//>`}
    ${approvals.pending.length > 0 && html`<${Section} title="Approvals">${approvals.pending.map((one) => html`<${Decision} key=${one.id} request=${one} session=${session} calls=${calls.open} generators=${state.generators} done=${reload} isPast=${isPast} />`)}<//>`}
    ${approvals.decided.length > 0 && html`<${Section} title="Decided"><ul>${approvals.decided.slice(-10).reverse().map((one) => html`<li><b>${said(one.decision, 20)}</b> <bdi>${said(one.question ?? one.reason ?? "")}</bdi> <span class="origin">by ${said(one.decided_by ?? one.actor ?? "")}</span><${Event} session=${session} id=${one.decision_id ?? one.id} /></li>`)}</ul><//>`}
    ${outcome && html`<${Section} title=${`Outcome: ${passing} of ${outcome.features.length}`}>${outcome.description && html`<p><bdi>${said(outcome.description, 1000)}</bdi></p>`}
      <ul>${outcome.features.map((one) => html`<li><${Icon} name=${MARKS[one.verdict] ?? (one.verdict ? "unclear" : "open")} /> <b>${said(one.id, 60)}</b> <bdi>${said(one.text)}</bdi>
        <div class="origin">${[one.verdict ?? "not judged", one.evaluated_by && `by ${one.evaluated_by}`, one.iterations > 1 && `judged ${exact(one.iterations)} times`, one.check && `check: ${said(one.check, 120)}`].filter(Boolean).join(" · ")}<${Event} session=${session} id=${one.evaluation} /></div>
        ${changesOf(one, warnings).map((warning) => html`<div class="warn-text">${said(warning.message)}<${Event} session=${session} id=${warning.id} /></div>`)}</li>`)}</ul>
      ${outcome.removed.length > 0 && html`<p class="warn-text">Removed on the way: ${outcome.removed.join(", ")}</p>`}<//>`}
    ${budget && html`<${Section} title="Budget">${Object.entries(budget.limits).map(([name, most]) => html`<${Limit} key=${name} name=${name} most=${most} used=${budget.used[name] ?? 0} tripped=${budget.tripped?.limit === name}><${Event} session=${session} id=${budget.set_by[name]} /><//>`)}
      ${budget.tripped && html`<p class="bad">Used up: ${budget.tripped.limit}<${Event} session=${session} id=${budget.tripped.id} /></p>`}<//>`}
    ${goal && html`<${Section} title="Goal"><p class="as-is"><bdi>${said(goal.text, 4000)}</bdi><${Event} session=${session} id=${goal.id} /></p><//>`}
    ${known.length > 0 && html`<${Section} title="Facts"><dl class="fields">${known.map(([key, fact]) =>
      html`<div><dt><bdi>${said(key, 60)}</bdi></dt><dd><bdi>${said(fact.value)}</bdi><${Event} session=${session} id=${fact.id} /></dd></div>`)}</dl><//>`}
    ${(lease || route) && html`<${Section} title="Lease and route">${lease && html`<p>${said(lease.worker, 60)}, epoch ${lease.epoch}, until ${lease.expires_at}</p>`}${route && html`<p>next: ${said(route.to, 60)}${route.reason ? `, ${said(route.reason)}` : ""}<${Event} session=${session} id=${route.id} /></p>`}<//>`}
    ${sandboxes.length > 0 && html`<${Section} title="Sandbox"><ul>${sandboxes.slice(-10).map((one) => html`<li>${said(one.sandbox ?? "", 60)} ${said(one.backend ?? "", 40)}: ${said(one.status ?? "", 40)}${one === sandbox ? " (now)" : ""}<${Event} session=${session} id=${one.id} /></li>`)}</ul><//>`}
    ${calls.open.length > 0 && html`<${Section} title="Calls without a result"><ul>${calls.open.slice(0, 50).map((one) => html`<li><${Icon} name="open" /> <b>${said(one.name, 60)}</b> <code>${said(one.input, 120)}</code><${Event} session=${session} id=${one.id} /></li>`)}</ul><//>`}
    ${checkpoint && html`<${Section} title=${`Checkpoints: ${state.checkpoints}`}><p>${said(checkpoint.next ?? checkpoint)}<${Event} session=${session} id=${checkpoint.id} /></p><//>`}
    ${artifacts.length > 0 && html`<${Section} title="Artifacts"><ul>${artifacts.slice(0, 100).map((one) => html`<li><bdi>${said(one.name ?? one.sha256, 120)}</bdi><${Event} session=${session} id=${one.id} /></li>`)}</ul><//>`}
    ${warnings.length > 0 && html`<${Section} title="Warnings"><ul>${warnings.map((one) => html`<li class="warn-text">${said(one.message ?? one.code)}<${Event} session=${session} id=${one.id} /></li>`)}</ul><//>`}`;
}

function Limit({ name, most, used, tripped, children }) {
  const part = most > 0 ? Math.min(1, used / most) : 1;
  const label = `${exact(Math.round(used * 100) / 100)} of ${exact(most)} ${name.replace(/_/g, " ")}`;
  return html`<div class=${`limit ${tripped || part >= 1 ? "bad" : ""}`}><span>${label}${children}</span><div class="meter" role="meter" aria-label=${name} aria-valuemin="0" aria-valuemax=${most} aria-valuenow=${Math.min(used, most)}><i style=${{ width: `${part * 100}%` }}></i></div></div>`;
}
