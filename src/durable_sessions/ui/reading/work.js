// What events of the work on a session say, each type `ds.…` in one line. The same as `rendering/work_events.py`.
import { partsOf } from "./content.js";
import { compact, count, oneLine, plural, pretty, size } from "./text.js";
import { isObject, pre } from "./tools.js";

const LINE_MAX = 300, WORD_MAX = 100, ROWS_MAX = 1000;
const MEASURES = ["tokens", "usd", "seconds", "tool_calls", "consecutive_errors", "repeated_calls"];
const SANDBOX = ["image", "image_digest", "workdir", "network", "host", "exit_code", "retry_of"];

const text = (event, name) => (typeof event[name] === "string" ? event[name] : "");
const word = (event, name) => oneLine(text(event, name), WORD_MAX);
const words = (value) => (Array.isArray(value) ? value.slice(0, ROWS_MAX).map((one) => oneLine(compact(one), 2000)) : []);
const objects = (value) => (Array.isArray(value) ? value.filter(isObject) : []);
export const number = (value) => (Number.isInteger(value) && value > 0 && value <= 2 ** 53 ? value : 0);
const fields = (rows) => {
  const told = rows.slice(0, ROWS_MAX).filter((row) => row[1]);
  return told.length ? [{ kind: "fields", rows: told }] : [];
};
const value = (label, one) =>
  (typeof one === "string" ? pre(compact(one), label) : pre(pretty(one), label, "json"));
const shown = (one) => (one === undefined || one === null ? "" : oneLine(compact(one), 2000));
const amount = (one) => (typeof one === "number" ? one.toLocaleString("en-US", { maximumFractionDigits: 20 })
  : oneLine(compact(one), WORD_MAX));
const measured = (limit, measure) => `${amount(limit)} ${measure === "usd" ? "USD" : measure.replace(/_/g, " ")}`;
const prose = (one) => partsOf(one, true);

function telling(title, line, event, member) {
  const said = text(event, member);
  const whole = said ? `${line}: ${said}` : line;
  const isLong = whole.length > LINE_MAX || said.trim().includes("\n");
  return { title, line: whole, parts: isLong ? prose(said) : [] };
}

function feature(one) {
  const check = text(one, "check"), files = objects(one.files).map((file) => word(file, "path"));
  return oneLine([text(one, "text"), check && `(check: ${check})`, files.length && `(files: ${files.join(", ")})`]
    .filter(Boolean).join(" "), 2000);
}

const TYPES = {
  "ds.session.paused": [[], (e) => telling("Session", "paused", e, "reason")],
  "ds.session.resumed": [[], (e) => telling("Session", "resumed", e, "reason")],
  "ds.session.ended": [["outcome"], (e) => {
    const outcome = word(e, "outcome");
    const entry = telling("Session", `ended, ${outcome.replace(/_/g, " ")}`, e, "reason");
    return { ...entry, failed: ["failed", "timed_out"].includes(outcome) };
  }],
  "ds.lease.claimed": [["worker", "epoch"], (e) => {
    const seconds = number(e.seconds), shared = e.exclusive === true ? "" : ", shared";
    const line = `${word(e, "worker")} took the session for ${count(seconds)} ${plural(seconds, "second")}`;
    return { title: "Lease", line: `${line} (epoch ${number(e.epoch)}${shared})` };
  }],
  "ds.lease.released": [["worker", "epoch"], (e) =>
    telling("Lease", `${word(e, "worker")} gave the session back (epoch ${number(e.epoch)})`, e, "reason")],
  "ds.routed": [["to"], (e) => {
    const to = word(e, "to");
    const entry = telling("Route", to === "*" ? "to anybody" : `to ${to}`, e, "reason");
    const rows = [["needs", words(e.needs).join(", ")], ["sees", shown(e.see)]];
    return { ...entry, parts: [...entry.parts, ...fields(rows)] };
  }],
  "ds.fact": [["key", "value"], (e) => {
    const kind = text(e, "kind"), short = compact(e.value);
    const line = kind === "goal" ? short : `${word(e, "key")}: ${short}`;
    const title = { goal: "Goal", decision: "Decision" }[kind] ?? "Fact";
    return { title, line, parts: line.length > LINE_MAX ? [value("", e.value)] : [] };
  }],
  "ds.fact.retracted": [["key"], (e) => telling("Fact", `${word(e, "key")} no longer holds`, e, "reason")],
  "ds.memory.written": [["scope", "key", "value"], (e) => {
    const line = `${word(e, "scope")}, ${word(e, "key")}: ${compact(e.value)}`;
    return { title: "Memory", line, parts: line.length > LINE_MAX ? [value("", e.value)] : [] };
  }],
  "ds.memory.read": [["scope", "returned"], (e) => {
    const returned = objects(e.returned).length, asked = text(e, "query") || text(e, "key");
    const line = `${returned} ${plural(returned, "write")} of ${word(e, "scope")}`;
    return { title: "Memory", line: asked ? `${line} for ${oneLine(asked, 200)}` : line };
  }],
  "ds.memory.rolled_back": [["write"], (e) => telling("Memory", `${word(e, "write")} rolled back`, e, "reason")],
  "ds.outcome.defined": [["features"], (e) => {
    const rows = objects(e.features).map((one) => [word(one, "id"), feature(one)]);
    const line = `${rows.length} ${plural(rows.length, "feature")} to pass: ${rows.map(([name]) => name).join(", ")}`;
    return { title: "Outcome wanted", line, parts: [...prose(text(e, "description")), ...fields(rows)] };
  }],
  "ds.evaluation": [["verdict"], (e) => {
    const verdict = word(e, "verdict"), of = word(e, "feature");
    let line = of ? `${of}: ${verdict}` : verdict;
    if (e.score !== undefined && e.score !== null) line += `, score ${compact(e.score)}`;
    const metrics = isObject(e.metrics) ? e.metrics : {};
    const rows = ["command", "exit_code", "sandbox", "model"].map((name) => [name, shown(e[name])]);
    rows.push(...Object.entries(metrics).map(([name, one]) => [oneLine(name, WORD_MAX), shown(one)]));
    rows.push(...objects(e.files).map((one) => [word(one, "path"), word(one, "sha256")]));
    const entry = telling("Evaluation", line, e, "note");
    return { ...entry, parts: [...entry.parts, ...fields(rows)], failed: verdict === "fail" };
  }],
  "ds.checkpoint": [["units", "next"], (e) => {
    const units = number(e.units), following = text(e, "next"), git = isObject(e.git) ? e.git : {};
    const rows = [["next", oneLine(following, 2000)], ["commit", word(git, "commit")], ["branch", word(git, "branch")],
      ...words(e.done).map((one) => ["done", one])];
    const state = "state" in e ? [value("state", e.state)] : [];
    const line = `${count(units)} ${plural(units, "unit")} done; next: ${following}`;
    return { title: "Checkpoint", line, parts: [...prose(text(e, "instructions")), ...fields(rows), ...state] };
  }],
  "ds.context.compacted": [["from", "to", "summary"], (e) => ({
    title: "Context", line: `events ${number(e.from)} to ${number(e.to)} replaced by a summary`,
    parts: prose(text(e, "summary")),
  })],
  "ds.context.reset": [["checkpoint"], (e) =>
    ({ title: "Context", line: `begins anew from the checkpoint ${word(e, "checkpoint")}` })],
  "ds.approval.requested": [["question"], (e) => {
    const options = words(e.options).join(" or ") || "approve or reject";
    const rest = e.blocking !== false ? "" : ", while the work goes on";
    return telling("Approval", `asked for (${options}${rest})`, e, "question");
  }],
  "ds.approval.decided": [["decision"], (e) => {
    const decision = word(e, "decision");
    const verb = { approve: "approved", reject: "rejected", edit: "edited", respond: "answered" }[decision] ?? decision;
    const entry = telling("Approval", verb, e, "reason");
    return { ...entry, parts: [...entry.parts, ...("payload" in e ? [value("payload", e.payload)] : [])] };
  }],
  "ds.budget.set": [[], (e) => {
    const given = MEASURES.filter((name) => name in e);
    const set = given.filter((name) => e[name] !== null).map((name) => measured(e[name], name));
    const lifted = given.filter((name) => e[name] === null).map((name) => name.replace(/_/g, " "));
    const said = [set.length && `at most ${set.join(", ")}`, lifted.length && `no limit on ${lifted.join(", ")}`];
    return { title: "Budget", line: said.filter(Boolean).join("; ") || "unchanged" };
  }],
  "ds.budget.tripped": [["limit", "max", "value"], (e) =>
    ({ title: "Budget", line: `used up: ${amount(e.value)} of ${measured(e.max, word(e, "limit"))}`, failed: true })],
  "ds.sandbox": [["sandbox", "status"], (e) => {
    const status = word(e, "status");
    const entry = telling("Sandbox", `${word(e, "sandbox")} (${word(e, "backend")}) ${status}`, e, "reason");
    const rows = SANDBOX.map((name) => [name.replace(/_/g, " "), shown(e[name])]);
    const spec = "spec" in e ? [value("spec", e.spec)] : [];
    return { ...entry, parts: [...entry.parts, ...fields(rows), ...spec], failed: ["lost", "failed"].includes(status) };
  }],
  "ds.artifact": [["sha256", "name"], (e) => {
    const held = number(e.bytes), digest = word(e, "sha256");
    const said = [word(e, "media_type"), held && size(held), `sha256 ${digest.slice(0, 12)}…`].filter(Boolean);
    return { title: "Artifact", line: `${oneLine(text(e, "name"), 200)} (${word(e, "role")}): ${said.join(", ")}`,
      parts: [{ kind: "fields", rows: [["sha256", digest]] }] };
  }],
  "ds.adopted": [["session"], (e) => {
    const [facts, verdicts, artifacts] = ["facts", "verdicts", "artifacts"].map((name) => objects(e[name]));
    const taken = [[facts, "fact"], [verdicts, "verdict"], [artifacts, "artifact"]]
      .map(([some, noun]) => `${some.length} ${plural(some.length, noun)}`).join(", ");
    const rows = [...facts.map((one) => [word(one, "key"), oneLine(compact(one.value), 2000)]),
      ...verdicts.map((one) => [word(one, "feature"), word(one, "verdict")]),
      ...artifacts.map((one) => [word(one, "name"), word(one, "role")])];
    const line = `${taken} of the session ${word(e, "session")}, as of #${number(e.position)}`;
    return { title: "Adopted", line, parts: fields(rows) };
  }],
  "ds.redacted": [["events"], (e) => {
    const events = objects(e.events), artifacts = words(e.artifacts);
    let line = `${events.length} ${plural(events.length, "event")}`;
    if (artifacts.length) line += ` and ${artifacts.length} ${plural(artifacts.length, "artifact")}`;
    const entry = telling("Redaction", `${line} erased`, e, "reason");
    const rows = [...events.map((one) => [word(one, "id"), word(one, "type")]),
      ...artifacts.map((digest) => ["artifact", digest])];
    return { ...entry, parts: [...entry.parts, ...fields(rows)] };
  }],
};

/** @returns {object | null} how a person reads an event of the work on a session; null if it is not one */
export function described(event) {
  const known = Object.hasOwn(TYPES, event.type) ? TYPES[event.type] : null;
  if (!known || !known[0].every((name) => name in event)) return null;
  const entry = { parts: [], failed: false, ...known[1](event) };
  const refs = objects(event.refs).slice(0, ROWS_MAX).map((ref) => {
    const other = word(ref, "session"), target = oneLine(text(ref, "id"), 200);
    return [word(ref, "rel"), other ? `${target} of the session ${other}` : target];
  });
  if (refs.length) entry.parts = [...entry.parts, { kind: "fields", rows: refs }];
  return { ...entry, line: oneLine(entry.line, LINE_MAX) };
}
