// One row of a session: an event in a line, and all of it when it is opened.
import { Part } from "./body.js";
import { HIDDEN, INHERITED } from "../api/outline.js";
import { glyph, Icon } from "../parts/icons.js";
import { html } from "../parts/html.js";
import { duration, exact, short } from "../parts/number.js";
import { clock, day, whole } from "../parts/time.js";
import { telling } from "../reading/entry.js";
import { count, plural, size } from "../reading/text.js";

const SPOKEN = new Set(["user", "agent"]);

export function Rule({ rule }) {
  return rule && html`<div class=${`rule ${rule.kind}`}><span>${rule.text}</span></div>`;
}

/** What stands for an event that has not been fetched: its role, name and size are known from the outline. */
export function Skeleton({ about, rule }) {
  return html`<${Rule} rule=${rule} /><div class="line skeleton">
    <span class="time">${about.time ? clock(about.time) : ""}</span><span class=${`lane lane-${about.lane}`}></span>
    <${Icon} name=${about.role} /><b class="name">${about.name || about.role}</b>
    <span class="head"><i class="bar"></i></span><span class="short">${size(about.bytes)}</span>
    <span class="took"></span><span class="pos">${exact(about.position)}</span></div>`;
}

/** @param {object} props what `Transcript.props` returns */
export function Row(props) {
  const { entry, about, rule, open, act } = props;
  const spoken = SPOKEN.has(entry.role) && entry.parts.length > 0;
  return html`<${Rule} rule=${rule} />
    <div class=${`line ${entry.role} ${entry.failed ? "is-failed" : ""} ${spoken ? "spoken" : ""} ${entry.quiet ? "is-quiet" : ""}`}
      onClick=${(event) => act.clicked(event, about.position)}>
      <${Time} entry=${entry} about=${about} />
      <span class=${`lane lane-${about.lane}`} title=${about.thread}></span>
      <${Icon} name=${glyph(entry, props.result !== null, props.isLive)} />
      ${spoken ? html`<${Spoken} ...${props} />` : html`<${OneLine} ...${props} />`}
      <a class="pos" href=${act.address(about.position)} title="Link to this event">${exact(about.position)}</a>
    </div>
    ${open && html`<${Opened} ...${props} spoken=${spoken} />`}`;
}

function Time({ entry, about }) {
  const at = entry.at ?? null;
  if (at === null) return html`<span class="time" title="It is not known when this happened">–</span>`;
  return html`<time class="time" datetime=${whole(at)} title=${whole(at)}>${clock(at)}</time>`;
}

/** The name of a thread, where it begins and where it goes on after another one. */
function Thread({ about }) {
  return about.names && html`<span class=${`thread lane-${about.lane}`}>${about.more > 0 && `+${exact(about.more)} `}<bdi>${about.thread}</bdi></span>`;
}

function Chips({ about, entry }) {
  return html`${(about.flags & HIDDEN) !== 0 && html`<span class="chip warn" title="This text holds characters that cannot be seen">hidden text</span>`}
    ${about.clipped && html`<span class="chip" title="Long texts are cut in the middle until it is opened">${size(about.bytes)}</span>`}
    ${entry.erased && html`<span class="chip">erased</span>`}`;
}

function OneLine({ entry, about, result, isLive, span, failures }) {
  const isCall = entry.role === "tool";
  return html`<b class="name"><bdi>${entry.title}</bdi></b>
    <span class="head"><${Thread} about=${about} /><bdi>${entry.line}</bdi>${span > 1 && html`<span class="chip">×${span} the same${failures ? `, ${failures} failed` : ""}</span>`}
      <${Chips} about=${about} entry=${entry} /></span>
    <span class="short">${isCall && result !== null && html`<bdi>${telling(result)}</bdi>`}
      ${isCall && result === null && html`<i>${isLive ? running(entry) : "no result"}</i>`}</span>
    <span class="took">${isCall && result?.at && entry.at ? duration(Math.max(0, result.at - entry.at)) : ""}</span>`;
}

const running = (entry) => (entry.at ? `running ${duration(Math.max(0, Date.now() - entry.at))}` : "running");

function Spoken({ entry, about, open }) {
  return html`<div class=${`said ${open ? "whole" : ""}`}>
    ${(entry.title !== "Agent" && entry.title !== "User") && html`<b class="name"><bdi>${entry.title}</bdi></b>`}
    <${Thread} about=${about} /><${Chips} about=${about} entry=${entry} />
    ${entry.parts.map((part, at) => html`<${Part} key=${at} part=${part} />`)}</div>`;
}

function Opened({ entry, event, result, resultEvent, about, act, spoken, span }) {
  const clipped = event.clipped || resultEvent?.clipped;
  return html`<div class="opened">
    ${clipped && html`<p class="note">Long texts are cut in the middle: ${size(event.clipped?.bytes ?? resultEvent.clipped.bytes)} in all.
      <button type="button" class="quiet-button" onClick=${() => act.whole(about.position)}>Read all of it</button></p>`}
    ${!spoken && entry.parts.map((part, at) => html`<${Part} key=${at} part=${part} />`)}
    ${result !== null && html`<div class="result"><div class="caption">Result${result.failed ? ", failed" : ""}</div>
      ${result.parts.map((part, at) => html`<${Part} key=${at} part=${part} bad=${result.failed} />`)}
      ${!result.parts.length && html`<p class="named">Nothing.</p>`}</div>`}
    ${span > 1 && html`<button type="button" class="quiet-button" onClick=${() => act.unfold(about.position)}>Show the ${count(span)} ${plural(span, "call")} one by one</button>`}
    <${Origin} event=${event} about=${about} />
  </div>`;
}

function Origin({ event, about }) {
  const actor = event.actor?.principal ?? event.actor;
  const said = [event.type, event.id, typeof actor === "string" ? `by ${actor}` : "", `${short(about.bytes)} bytes`,
    about.flags & INHERITED ? "inherited" : "", event.imported ? `imported, ${event.imported}` : ""];
  return html`<p class="origin"><bdi>${said.filter(Boolean).join(" · ")}</bdi></p>`;
}

/** The rule above a row: a new day, a pause, a compaction, the place of a fork. */
export function ruleOf(before, at, flags) {
  if (flags.isFork) return { kind: "fork", text: "forked here: what is above is shared with the source" };
  if (flags.isCompaction) return { kind: "compaction", text: "context compacted" };
  if (!before || !at) return null;
  if (day(before) !== day(at)) return { kind: "day", text: day(at) };
  return at - before > 600_000 ? { kind: "pause", text: `${duration(at - before)} later` } : null;
}
