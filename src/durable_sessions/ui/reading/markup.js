// Markup that coding tools put into messages and results, read as what it is. The same as `rendering/markup.py` and
// `rendering/result_markup.py`.
import { clean, compact } from "./text.js";
import { isObject, pre } from "./tools.js";

const NAMES_MAX = 64, SHORT = 160, DEPTH_MAX = 3;
const TAGS = {
  "bash-input": "", "bash-stdout": "output", "bash-stderr": "errors", "local-command-stdout": "output",
  "local-command-stderr": "errors", "local-command-caveat": "note of the tool",
  "system-reminder": "reminder of the tool", "user-prompt-submit-hook": "hook", "session-start-hook": "hook",
  "task-notification": "task", "subagent_notification": "task", "teammate-message": "",
  "tool_use_error": "error of the tool", "turn_aborted": "note of the tool", "environment_context": "environment",
  "environment_details": "environment", "permissions instructions": "instructions",
  "skills_instructions": "instructions", "user_instructions": "instructions", "ide_opened_file": "editor",
  "ide_selection": "editor",
};
const COMMAND = ["command-name", "command-message", "command-args"];
const RESULT_TAGS = {
  "system-reminder": "reminder of the tool", "tool_use_error": "error of the tool", usage: "usage", task_result: "",
  task_metadata: "note of the tool", shell_metadata: "note of the tool", bash_metadata: "note of the tool",
};
const FORMS = {
  "<path>": ["path", "type", "content", "entries"],
  "<file>": ["file"],
  "<retrieval_status>": ["retrieval_status", "task_id", "task_type", "status", "exit_code", "output", "error"],
};
const opening = (tags, begins = "") => new RegExp(`${begins}<(${tags.join("|")})(?:\\s[^<>]{0,2000})?>`, "gm");
const OPENING = opening([...Object.keys(TAGS), ...COMMAND]);
const RESULT_OPENING = opening(Object.keys(RESULT_TAGS), "^");
const MEMBER = /<([a-z][a-z_-]{0,40})>/g;

function* elements(text, openings, fillLines = false) {
  const closings = new Map();
  const search = new RegExp(openings.source, openings.flags);
  let found;
  while ((found = search.exec(text))) {
    let at = search.lastIndex;
    const tag = found[1];
    if (!closings.has(tag) && closings.size >= NAMES_MAX) return;
    let closing = closings.get(tag) ?? 0;
    if (closing >= 0 && closing < at) closings.set(tag, (closing = text.indexOf(`</${tag}>`, at)));
    if (closing < 0) continue;
    const end = closing + tag.length + 3;
    if (fillLines && end < text.length && text[end] !== "\n") continue;
    yield { tag, text: text.slice(at, closing), start: found.index, end };
    search.lastIndex = end;
  }
}

const strip = (text) => text.replace(/^\n+|\n+$/g, "");
const prose = (text) => (text.trim() ? [{ kind: "prose", text: strip(text) }] : []);

/** @returns {{title: string, line: string} | null} the command that a message is */
export function command(text) {
  if (!text.trimStart().startsWith("<")) return null;
  const found = {};
  for (const element of elements(text, OPENING)) found[element.tag] = element.text;
  const name = (found["command-name"] ?? "").trim();
  if (name) return { title: "Command", line: `${name} ${(found["command-args"] ?? "").trim()}`.trim() };
  const typed = (found["bash-input"] ?? "").trim();
  return typed ? { title: "Shell", line: `$ ${typed}` } : null;
}

/** @returns {Array<object>} what a message says, each piece of markup as a block that says what it is */
export function proseParts(text) {
  const parts = [];
  let done = 0;
  if (text.includes("<")) {
    for (const element of elements(text, OPENING)) {
      parts.push(...prose(text.slice(done, element.start)), ...elementParts(element.tag, strip(element.text)));
      done = element.end;
    }
  }
  return done ? [...parts, ...prose(text.slice(done))] : [{ kind: "prose", text }];
}

function elementParts(tag, text) {
  switch (tag) {
    case "command-name": return [pre(text.trim())];
    case "command-message": return [];
    case "command-args": case "teammate-message": return prose(text);
    case "bash-input": return [pre(`$ ${text.trim()}`, "", "sh")];
    case "task-notification": case "environment_context": return report(tag, text);
    case "subagent_notification": return status(tag, text);
    default: return text.trim() ? [pre(text, TAGS[tag])] : [];
  }
}

function* members(text, depth = 0) {
  for (const element of elements(text, MEMBER)) {
    const inner = depth < DEPTH_MAX ? [...members(element.text, depth + 1)] : [];
    const name = element.tag.replace(/[_-]/g, " ");
    yield* inner.length ? inner : [[name, element.text.trim()]];
  }
}

function report(tag, text) {
  const told = new Map(members(text));
  if (!told.size) return text.trim() ? [pre(text, TAGS[tag])] : [];
  const parts = [];
  for (const name of ["summary", "result"]) {
    parts.push(...prose(told.get(name) ?? ""));
    told.delete(name);
  }
  const long = [...told].filter(([, value]) => value.length > SHORT || value.includes("\n"));
  const rows = [...told].filter(([name, value]) => value && !long.some(([other]) => other === name));
  if (rows.length) parts.push({ kind: "fields", rows });
  return [...parts, ...long.map(([name, value]) => pre(value, name))];
}

function status(tag, text) {
  let told = null;
  try { told = JSON.parse(text); } catch { /* it is shown as it is */ }
  if (!isObject(told) || !isObject(told.status)) return text.trim() ? [pre(text, TAGS[tag])] : [];
  const parts = Object.entries(told.status).flatMap(([name, said]) =>
    prose(name === "completed" ? compact(said) : `${name}: ${compact(said)}`));
  const rows = Object.entries(told).filter(([name]) => name !== "status")
    .map(([name, value]) => [name.replace(/_/g, " "), compact(value)]);
  return rows.length ? [...parts, { kind: "fields", rows }] : parts;
}

/** @returns {Array<object>} what a tool returned, without the markup */
export function resultParts(text) {
  const begins = text.slice(0, 40).trimStart().split(">", 1)[0] + ">";
  return Object.hasOwn(FORMS, begins) ? form(text, FORMS[begins]) : pieces(text);
}

const plain = (text, label = "") => (text.trim() ? [pre(strip(text), label)] : []);

function pieces(text) {
  const parts = [];
  let done = 0;
  if (text.includes("<")) {
    for (const element of elements(text, RESULT_OPENING, true)) {
      parts.push(...plain(text.slice(done, element.start)), ...plain(strip(element.text), RESULT_TAGS[element.tag]));
      done = element.end;
    }
  }
  return done ? [...parts, ...plain(text.slice(done))] : [pre(text)];
}

function form(text, names) {
  const rows = [], long = [];
  let done = 0;
  for (const element of elements(text, opening(names), true)) {
    const between = strip(text.slice(done, element.start));
    if (between) long.push(...pieces(between));
    const value = strip(element.text);
    if (value.includes("\n") || value.length > SHORT || ["file", "content", "output"].includes(element.tag)) {
      long.push(...plain(value));
    } else if (value) rows.push([element.tag.replace(/_/g, " "), clean(value)]);
    done = element.end;
  }
  if (!done) return pieces(text);
  const rest = strip(text.slice(done));
  return [...(rows.length ? [{ kind: "fields", rows }] : []), ...long, ...(rest ? pieces(rest) : [])];
}
