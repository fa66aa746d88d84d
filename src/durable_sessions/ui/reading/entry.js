// An event as a person reads it: who, what, in one line and in full. The same as `rendering/entries.py`.
import { partsOf, textOf } from "./content.js";
import { command, proseParts, resultParts } from "./markup.js";
import { clean, count, oneLine, pretty } from "./text.js";
import { headline, inputParts, isObject, pre } from "./tools.js";
import { described, number } from "./work.js";

export const ROLES = ["user", "agent", "thinking", "tool", "result", "system", "error", "status", "other"];
export const RESULTS = {
  "agent.tool_result": "tool_use_id", "user.tool_result": "tool_use_id",
  "agent.mcp_tool_result": "mcp_tool_use_id", "user.custom_tool_result": "custom_tool_use_id",
};
const CALLS = new Set(["agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use"]);
const NOT_SHOWN = new Set(["id", "type", "request_key", "imported", "ref_incarnations", "offset", "created_at",
  "processed_at", "actor", "original_offset", "original_created_at", "original_processed_at", "original_actor"]);
const TELLING_REASONS = new Set(["requires_action", "retries_exhausted", "budget_reached", "refusal"]);
const TELLING_STATUSES = new Set(["session.status_terminated", "session.thread_created", "session.deleted",
  "workflow_run.created"]);

const text = (holder, name) => (typeof holder[name] === "string" ? holder[name] : "");
const said = (content) => partsOf(content, true)
  .flatMap((part) => (part.kind === "prose" ? proseParts(part.text) : [part]));
const returned = (content) => partsOf(content, false).flatMap((part) =>
  (part.kind === "pre" && !part.label && !part.language && part.text.includes("<") ? resultParts(part.text) : [part]));

/** @typedef {{role: string, title: string, line: string, parts: Array<object>, failed: boolean, quiet: boolean,
 *   id: string, type: string, at: number | null, thread: string, call: string | null}} Entry */

/** @param {object} event @returns {Entry} an event as it is shown; every event can be shown */
export function entryOf(stored) {
  const event = meant(stored);
  const type = text(event, "type");
  const entry = { line: "", parts: [], failed: false, quiet: false, call: null, ...make(type, event) };
  const erased = erasure(event);
  if (erased) {
    entry.parts = [{ kind: "prose", text: erased }];
    entry.line = "";
    entry.erased = true;
  }
  entry.id = oneLine(text(event, "id"), 200);
  entry.type = oneLine(text(stored, "type"), 128);
  entry.at = happened(event);
  entry.thread = oneLine(text(event, "session_thread_id"), 80);
  if (!entry.line) entry.line = oneLine(textOf(entry.parts));
  return entry;
}

/** An event of an adapter as what it means, which the server says. */
function meant(event) {
  if (!isObject(event.lens) || !event.raw_format) return event;
  const { raw, raw_format, slot, lens, ...kept } = event;
  return { ...kept, ...lens };
}

function make(type, event) {
  if (CALLS.has(type)) return call(event);
  if (Object.hasOwn(RESULTS, type)) return result(type, event);
  switch (type) {
    case "user.message": return user(event);
    case "user.interrupt": return { role: "user", title: "User", line: "interrupted the agent" };
    case "user.tool_confirmation": return confirmation(event);
    case "user.define_outcome": {
      const about = text(event, "description");
      return { role: "user", title: "Outcome wanted", line: oneLine(about), parts: partsOf(about, true) };
    }
    case "system.message":
      return { role: "system", title: "System", parts: said(event.content), quiet: event.injected === true };
    case "agent.message": return { role: "agent", title: "Agent", parts: said(event.content) };
    case "agent.thinking": {
      const content = filled(event.content) ?? filled(event.thinking) ?? filled(event.text);
      return { role: "thinking", title: "Thinking", parts: partsOf(content, true), quiet: content === undefined };
    }
    case "agent.thread_context_compacted": return compacted(event);
    case "agent.thread_message_sent": case "agent.thread_message_received": return threadMessage(type, event);
    case "session.error": case "workflow_run.error": return error(event);
    case "session.updated": {
      const title = text(event, "title");
      return { role: "status", title: "Session", line: oneLine(title ? `now called ${title}` : "updated"), quiet: true };
    }
    case "session.usage": return span(type, event);
    case "span.model_request_end": return requestEnd(event);
    case "import.record": return { ...other(event), quiet: true };
  }
  if (type.startsWith("ds.")) {
    const told = described(event);
    if (told) return { role: "status", ...told };
  }
  if (type.startsWith("session.") || type.startsWith("workflow_run.")) return status(type, event);
  return type.startsWith("span.") ? span(type, event) : other(event);
}

/** Return a value that Python takes for true, else undefined. */
function filled(value) {
  if (value === null || value === undefined || value === "" || value === 0 || value === false) return undefined;
  if (Array.isArray(value) && !value.length) return undefined;
  return isObject(value) && !Object.keys(value).length ? undefined : value;
}

function erasure(event) {
  const has = (value, names) => isObject(value) && names.every((name) => name in value);
  if (has(event.redacted, ["at", "reason", "sha256", "bytes"])) return `(redacted: ${oneLine(String(event.redacted.reason))})`;
  return has(event.dropped, ["by", "sha256", "bytes"]) ? "(dropped with its slot)" : null;
}

function user(event) {
  const plain = partsOf(event.content, true);
  const typed = plain.length === 1 && plain[0].kind === "prose" ? command(plain[0].text) : null;
  const parts = said(event.content);
  return typed ? { role: "user", title: typed.title, line: oneLine(typed.line), parts } : { role: "user", title: "User", parts };
}

function call(event) {
  const server = text(event, "mcp_server_name"), name = text(event, "name") || "tool";
  return { role: "tool", title: oneLine(server ? `${server}: ${name}` : name, 80), line: headline(event.input),
    parts: inputParts(event.input) };
}

function result(type, event) {
  const parts = returned(event.content);
  return { role: "result", title: "Result", line: oneLine(textOf(parts)), parts, failed: event.is_error === true,
    call: text(event, RESULTS[type]) || null };
}

function confirmation(event) {
  const verdict = event.result === "deny" ? "denied" : "allowed", why = oneLine(text(event, "deny_message"), 500);
  return { role: "user", title: "User", line: `${verdict} a tool call` + (why ? `: ${why}` : "") };
}

function threadMessage(type, event) {
  const sent = type === "agent.thread_message_sent";
  const who = text(event, sent ? "to_agent_name" : "from_agent_name")
    || text(event, sent ? "to_session_thread_id" : "from_session_thread_id");
  return { role: "agent", title: oneLine(`Agent ${sent ? "to" : "from"} ${who || "a thread"}`, 80), parts: said(event.content) };
}

function error(event) {
  const given = isObject(event.error) ? event.error : typeof event.error === "string" ? { message: event.error } : {};
  const kind = oneLine(text(given, "type"), 80), message = text(given, "message") || text(event, "message");
  const retrying = isObject(given.retry_status) && given.retry_status.type === "retrying";
  const line = [kind, oneLine(message, 300)].filter(Boolean).join(": ") || "an error";
  const parts = message.length > 300 || message.includes("\n") ? partsOf(message, false) : [];
  const again = Number.isInteger(event.retry_attempt) ? ` (retrying, attempt ${event.retry_attempt})` : " (retrying)";
  return { role: "error", title: "Error", line: line + (retrying ? again : ""), parts, failed: true };
}

function status(type, event) {
  const why = isObject(event.stop_reason) ? text(event.stop_reason, "type") : "", who = text(event, "agent_name");
  const at = type.indexOf("."), family = type.slice(0, at).replace(/_/g, " ");
  const line = type.slice(at + 1).replace(/^status_/, "").replace(/_/g, " ");
  const extra = [who, why.replace(/_/g, " ")].filter(Boolean).map((one) => oneLine(one, 80)).join(", ");
  return { role: "status", title: family[0].toUpperCase() + family.slice(1).toLowerCase(),
    line: oneLine(extra ? `${line} (${extra})` : line),
    quiet: !TELLING_REASONS.has(why) && !TELLING_STATUSES.has(type) };
}

function compacted(event) {
  if (event.kind === "micro") {
    const cleared = Array.isArray(event.cleared) && event.cleared.length ? ` (${event.cleared.length} tool results)` : "";
    return { role: "status", title: "Context", line: `old tool results cleared${cleared}`, quiet: true };
  }
  return { role: "status", title: "Context", line: "compacted", parts: said(filled(event.content) ?? event.summary) };
}

export function costOf(event) {
  for (const holder of [event, isObject(event.model_usage) ? event.model_usage : {}]) {
    if (typeof holder.cost_usd === "number" && holder.cost_usd >= 0 && holder.cost_usd < 1e9) return holder.cost_usd;
  }
  return null;
}

function requestEnd(event) {
  const tokens = isObject(event.model_usage) ? event.model_usage : {};
  const read = number(tokens.cache_read_input_tokens), written = number(tokens.cache_creation_input_tokens);
  const cost = costOf(event), failed = event.is_error === true;
  const told = [text(event, "model"), `${count(number(tokens.input_tokens) + read + written)} tokens in`,
    read && `${count(read)} cached`, `${count(number(tokens.output_tokens))} out`,
    cost === null ? "" : `$${cost.toFixed(4)}`];
  return { role: "status", title: "Model", line: oneLine(told.filter(Boolean).join(", ")), failed, quiet: !failed };
}

function span(type, event) {
  const kind = type.replace(/^span\./, "").replace(/^session\./, "").replace(/_/g, " ");
  const parts = partsOf(text(event, "explanation"), true);
  return { role: "status", title: "Span", line: oneLine([kind, text(event, "result")].filter(Boolean).join(": ")), parts,
    quiet: !parts.length };
}

function other(event) {
  const rest = Object.fromEntries(Object.entries(event).filter(([name]) => !NOT_SHOWN.has(name)));
  const parts = [];
  for (const name of ["content", "text", "message", "summary"]) {
    if ((typeof rest[name] === "string" || Array.isArray(rest[name])) && rest[name].length) {
      parts.push(...partsOf(rest[name], true));
      delete rest[name];
      break;
    }
  }
  const values = Object.values(rest);
  if (values.length) {
    const isPlain = values.length <= 8 && values.every((one) => one === null || typeof one !== "object");
    parts.push(...(isPlain ? inputParts(rest) : [pre(pretty(rest), "", "json")]));
  }
  return { role: "other", title: oneLine(text(event, "type"), 80) || "event", parts };
}

const moment = (value) => {
  if (typeof value !== "string" || !/^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d/.test(value)) return null;
  const at = Date.parse(value.replace(" ", "T"));
  return Number.isNaN(at) || at < 0 ? null : at;
};

/** @returns {number | null} when something happened, if that is known; imported events happened elsewhere */
export function happened(event) {
  for (const name of ["original_created_at", "original_processed_at"]) {
    const at = moment(event[name]);
    if (at !== null) return at;
  }
  if ("original_created_at" in event || (isObject(event.source) && "record_id" in event.source)) return null;
  return moment(event.created_at);
}

const RULER = /^[=_*#~-]{4,}.*[=_*#~-]{4,}$/; // a heading between rulers, such as pytest's, says less than what follows

/** @returns {string} the line of a result that says why: with an error in it, else the first with a letter */
export function telling(entry) {
  const head = textOf(entry.parts).slice(0, 2048).split("\n").map((line) => line.trim());
  const worded = head.filter((line) => /\p{L}/u.test(line)), said = worded.filter((line) => !RULER.test(line));
  const lines = said.length ? said : worded;
  const why = entry.failed ? lines.find((line) => /error|fail|exit code|denied|refused|not found/i.test(line)) : null;
  return oneLine(clean(why ?? lines[0] ?? head.find(Boolean) ?? ""), 160);
}
