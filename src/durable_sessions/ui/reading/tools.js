// Tool calls: what they do in one line, and what is shown of their input. The same as `rendering/tools.py`.
import { counts, edit, isPatch, patch } from "./diff.js";
import { clean, compact, count, linesOf, oneLine, plural, pretty } from "./text.js";

const PATHS = ["file_path", "path", "filePath", "notebook_path", "filename"];
const COMMANDS = ["command", "cmd", "script"];
const TELLING = ["subject", "pattern", "query", "q", "url", "description", "prompt", "question", "task", "name",
  "code", "text"];
const OLD = ["old_string", "old_str", "oldString", "oldText"], NEW = ["new_string", "new_str", "newString", "newText"];
const CONTENTS = ["content", "file_text", "contents", "new_source"];
const FIELD_CHARACTERS_MAX = 160;

export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isText = (value) => typeof value === "string";

/** @returns {string} one line that says what a tool was asked to do */
export function headline(given, most = 120) {
  const input = unwrapped(given);
  if (!isObject(input)) return input === null || input === undefined ? "" : oneLine(compact(input), most);
  const command = commandOf(input);
  if (command) return oneLine(firstLine(command), most);
  const path = first(input, PATHS), change = changeOf(input);
  if (change) return oneLine(path ? `${path} (${counts(change)})` : patched(change), most);
  const written = first(input, CONTENTS);
  if (path && written) {
    const lines = linesOf(written).length;
    return oneLine(`${path} (${count(lines)} ${plural(lines, "line")})`, most);
  }
  if (Array.isArray(input.todos)) return progress(input.todos);
  const telling = first(input, TELLING);
  if (telling || path) return oneLine([telling, path].filter(Boolean).join(" in "), most);
  return Object.keys(input).length ? oneLine(compact(input), most) : "";
}

/** @returns {Array<object>} the input of a tool call as parts that can be shown, nothing left out */
export function inputParts(given) {
  const input = unwrapped(given);
  if (!isObject(input)) return input === null || input === undefined ? [] : [pre(compact(input))];
  const parts = [], shown = new Set();
  const command = commandOf(input);
  if (command) {
    COMMANDS.forEach((name) => shown.add(name));
    parts.push({ ...pre(clean(command), "", "sh"), raw: command });
  }
  const change = changeOf(input), path = first(input, PATHS);
  if (change) {
    [...OLD, ...NEW, "edits", "patch", "diff"].forEach((name) => shown.add(name));
    if (isText(input.input)) shown.add("input");
    parts.push({ kind: "diff", lines: change });
  }
  const written = first(input, CONTENTS);
  if (path && written) {
    CONTENTS.forEach((name) => shown.add(name));
    parts.push(pre(clean(written)));
  }
  const rest = Object.fromEntries(Object.entries(input).filter(([name]) => !shown.has(name)));
  return [...parts, ...remaining(rest)];
}

export const pre = (text, label = "", language = "") => ({ kind: "pre", text, label, language });

function unwrapped(input) {
  let text = input;
  if (isObject(text) && Object.keys(text).length === 1) text = text.input ?? text.arguments;
  if (!isText(text) || !text.startsWith("{")) return input;
  try {
    const value = JSON.parse(text);
    return isObject(value) ? value : input;
  } catch {
    return input;
  }
}

function remaining(values) {
  const rows = [], blocks = [];
  for (const [name, value] of Object.entries(values)) {
    const label = oneLine(name, 60), short = compact(value);
    if (short.length <= FIELD_CHARACTERS_MAX && !short.includes("\n")) rows.push([label, short]);
    else blocks.push(isText(value) ? pre(clean(value), label) : pre(pretty(value), label, "json"));
  }
  return rows.length ? [{ kind: "fields", rows }, ...blocks] : blocks;
}

function commandOf(input) {
  for (const name of COMMANDS) {
    const value = input[name];
    // An editor's "command" names what it does, and the path says to what.
    if (isText(value) && value.trim()) return first(input, PATHS) && !value.trim().includes(" ") ? "" : value;
    if (Array.isArray(value) && value.length && value.every(isText)) {
      return value.length === 3 && ["-c", "-lc"].includes(value[1]) ? value[2] : value.join(" ");
    }
  }
  return "";
}

function changeOf(input) {
  const edits = input.edits;
  if (Array.isArray(edits) && edits.length && edits.every(isObject)) {
    const changes = edits.map(replaced);
    if (changes.every(Boolean)) return changes.flatMap((lines) => ["@@", ...lines]);
  }
  for (const name of ["patch", "diff", "input"]) {
    if (isText(input[name]) && isPatch(input[name])) return patch(input[name]);
  }
  return replaced(input);
}

function replaced(values) {
  const old = OLD.map((name) => values[name]).find(isText), now = NEW.map((name) => values[name]).find(isText);
  return old === undefined || now === undefined ? null : edit(old, now);
}

function patched(lines) {
  let names = lines.filter((line) => /^\*\*\* (Update|Add|Delete) File: ./.test(line))
    .map((line) => line.split(" ").slice(3).join(" "));
  if (!names.length) names = lines.filter((line) => line.startsWith("+++ b/")).map((line) => line.slice(6));
  return `${names.join(", ") || "patch"} (${counts(lines)})`;
}

function progress(todos) {
  const done = todos.filter((todo) => isObject(todo) && todo.status === "completed").length;
  const now = todos.find((todo) => isObject(todo) && todo.status === "in_progress")?.content;
  return oneLine(`${done} of ${todos.length} done` + (isText(now) ? `, now: ${now}` : ""));
}

const first = (values, names) => names.map((name) => values[name]).find((one) => isText(one) && one.trim()) ?? "";

function firstLine(text) {
  const lines = text.trim().split(/\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]/);
  return lines.length > 1 ? `${lines[0]} …` : lines[0];
}
