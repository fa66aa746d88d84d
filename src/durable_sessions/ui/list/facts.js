// What the outline would say of an event that has come live, as far as it can be known here.
import { COMPACTION, FAILED, HIDDEN, QUIET, REDACTED } from "../api/outline.js";
import { ROLES, costOf, entryOf } from "../reading/entry.js";
import { textOf } from "../reading/content.js";
import { hiddenIn } from "../reading/hidden.js";
import { isObject } from "../reading/tools.js";
import { number } from "../reading/work.js";

/** @returns {object} role, flags, characters, time, key, name, thread and call of an event */
export function factsOf(event) {
  const entry = entryOf(event);
  const text = textOf(entry.parts);
  let flags = (entry.failed ? FAILED : 0) | (entry.quiet ? QUIET : 0) | (entry.erased ? REDACTED : 0);
  if (event.type === "agent.thread_context_compacted" && event.kind !== "micro") flags |= COMPACTION;
  if (hiddenIn(text)) flags |= HIDDEN;
  const facts = { role: ROLES.indexOf(entry.role), flags, characters: text.length, time: entry.at ?? 0, key: 0,
    name: "", thread: typeof event.session_thread_id === "string" ? event.session_thread_id : "", call: entry.call,
    request: null };
  if (entry.role === "tool") {
    facts.name = entry.title;
    facts.key = hash(`${event.name} ${JSON.stringify(event.input)}`);
  }
  if (event.type === "span.model_request_end") {
    const used = isObject(event.model_usage) ? event.model_usage : {}, cost = costOf(event);
    facts.request = [number(used.input_tokens), number(used.cache_read_input_tokens),
      number(used.cache_creation_input_tokens), number(used.output_tokens), cost === null ? null : Math.round(cost * 1e6)];
  }
  return facts;
}

function hash(text) {
  let value = 2166136261;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 16777619);
  return (value >>> 0) || 1;
}
