// What a reader can do with a session: go on with it, fork it, pause, end, archive and delete it, take it along.
import { useEffect, useState } from "preact/hooks";
import { append, ask, get, sessionPath } from "../api/client.js";
import { may } from "../api/whoami.js";
import { Copy } from "../parts/copy.js";
import { Dialog } from "../parts/dialog.js";
import { html } from "../parts/html.js";
import { exact } from "../parts/number.js";
import { compact, oneLine, shellWord } from "../reading/text.js";
import { go, sessionAddress } from "../router.js";

const FORMATS = [["html", "one page to read or send"], ["markdown", "a document to paste"], ["jsonl", "every stored event, byte for byte"],
  ["atif", "a trajectory for evaluations"], ["otlp", "a trace for OpenTelemetry"], ["prov", "where everything came from"]];
const OVER = ["closed", "archived"];

/** @returns {string | null} the command with which the tool that a session came from goes on with it */
function ofTool(id, info) {
  const { tool, cwd } = info.metadata ?? {}, name = id.slice(id.indexOf(":") + 1);
  const goOn = { "claude-code": `claude --resume ${shellWord(name)}`, codex: `codex resume ${shellWord(name)}`, opencode: `opencode --session ${shellWord(name)}` }[tool];
  if (!goOn || !id.startsWith(`${tool}:`)) return null;
  return typeof cwd === "string" && cwd ? `cd ${shellWord(cwd)} && ${goOn}` : goOn;
}

/** @returns {{name: string, key: string, dialog: string}[]} what this reader may do with this session */
export function actionsOf(info) {
  const isOver = OVER.includes(info.lifecycle) || info.archived_at, mayAppend = may("append");
  return [
    { name: "Resume this session", dialog: "resume" },
    mayAppend && { name: "Fork from here", dialog: "fork" },
    { name: "Export", dialog: "export" },
    mayAppend && !isOver && (info.lifecycle === "paused" ? { name: "Lift the pause", dialog: "lift" } : { name: "Pause", dialog: "pause" }),
    mayAppend && !isOver && { name: "Close", dialog: "close" },
    mayAppend && !info.archived_at && { name: "Archive", dialog: "archive" },
    mayAppend && { name: "Delete", dialog: "delete" },
  ].filter(Boolean);
}

/** The dialog of an action; `position` is that of the selected event, null if none is. */
export function Action({ name, id, info, position, close, changed }) {
  const given = { id, info, position, close, changed };
  if (name === "resume") return html`<${Resume} ...${given} />`;
  if (name === "fork") return html`<${Fork} ...${given} />`;
  if (name === "export") return html`<${Export} ...${given} />`;
  return html`<${Change} name=${name} ...${given} />`;
}

function Commands({ rows }) {
  return html`<dl class="ways">${rows.map(([what, text]) => html`<div><dt>${what}</dt><dd><pre dir="ltr">${text}</pre><${Copy} text=${text} /></dd></div>`)}</dl>`;
}

function Resume({ id, info, close }) {
  const [calls, set] = useState([]), tool = ofTool(id, info), origin = location.origin;
  useEffect(() => { get(sessionPath(id, "/state")).then((state) => set(state.calls.open), () => {}); }, []);
  const rows = [
    ...(tool ? [["Where it came from", tool]] : []),
    ["Command line", `ds wake ${shellWord(id)}`],
    ["Python", `from durable_sessions import Client\n\nwith Client(${JSON.stringify(origin)}) as client:\n    woken = client.session(${JSON.stringify(id)}).wake()`],
    ["curl", `curl -H "Authorization: Bearer $DURABLE_SESSIONS_API_KEY" -d '{}' ${shellWord(origin + sessionPath(id, "/wake"))}`],
  ];
  return html`<${Dialog} title="Resume this session" close=${close} wide><div>
    ${calls.length > 0 && html`<div class="caution"><b>${exact(calls.length)} ${calls.length === 1 ? "call has" : "calls have"} no result. Find out what ${calls.length === 1 ? "it has" : "they have"} done before anything runs again:</b>
      <ul>${calls.slice(0, 10).map((call) => html`<li><a href=${sessionAddress(id, { event: call.id })} onClick=${close}><b>${oneLine(String(call.name ?? "call"), 60)}</b></a> <code>${oneLine(compact(call.input), 160)}</code></li>`)}</ul></div>`}
    <${Commands} rows=${rows} /></div><//>`;
}

function Export({ id, close }) {
  return html`<${Dialog} title="Export" close=${close} wide><div><p class="note">Whole, however long it is. <a href=${sessionAddress(id, { plain: 1 })} target="_self">As pages without script</a></p>
    <${Commands} rows=${FORMATS.map(([format, what]) => [what, `ds export ${shellWord(id)} --format ${format}`])} /></div><//>`;
}

function useSending(close) {
  const [problem, tell] = useState(""), [busy, setBusy] = useState(false);
  const send = async (act) => {
    setBusy(true);
    try { await act(); close(); } catch (error) { tell(error.message); setBusy(false); }
  };
  return { problem, busy, send };
}

function Fork({ id, info, position, close }) {
  const { problem, busy, send } = useSending(close);
  const at = position === null ? null : position + 1;
  const submit = (event) => {
    event.preventDefault();
    const name = event.target.elements.name.value.trim();
    send(async () => {
      const headers = { "Stream-Forked-From": sessionPath(id), "If-None-Match": "*" };
      if (at !== null) headers["Stream-Fork-Offset"] = `${info.next_offset.split("_")[0]}_${String(at).padStart(16, "0")}`;
      await ask(sessionPath(name), { method: "PUT", headers, body: {} });
      go(sessionAddress(name));
    });
  };
  return html`<${Dialog} title="Fork" close=${close}><form class="asked" onSubmit=${submit}>
    <p class="note">A session that shares ${at === null ? "all events so far" : `the events up to #${exact(position)}`} and then goes its own way. Nothing is copied.</p>
    <label>Name <input type="text" name="name" required autofocus maxlength="200" defaultValue=${`${id}-fork`} /></label>
    ${problem && html`<p class="bad" role="alert">${problem}</p>`}<button type="submit" disabled=${busy}>Fork</button></form><//>`;
}

const CHANGES = {
  pause: ["Pause", "It takes no work until the pause is lifted.", (id, { reason }) => append(id, { type: "ds.session.paused", reason })],
  lift: ["Lift the pause", "It takes work again.", (id, { reason }) => append(id, { type: "ds.session.resumed", reason })],
  close: ["Close", "Nothing can be appended to it any more.", (id, { outcome, reason }) => ask(sessionPath(id, "/close"), { method: "POST", body: { outcome, reason } })],
  archive: ["Archive", "It is left out of lists, and takes no events.", (id) => ask(sessionPath(id, "/archive"), { method: "POST" })],
  delete: ["Delete", "Its events are gone for good; forks of it keep what they share.", (id) => ask(sessionPath(id), { method: "DELETE" })],
};

function Change({ name, id, close, changed }) {
  const { problem, busy, send } = useSending(close), [typed, type] = useState("");
  const [title, note, act] = CHANGES[name], isDeletion = name === "delete", hasReason = ["pause", "lift", "close"].includes(name);
  const submit = (event) => {
    event.preventDefault();
    const { reason, outcome } = event.target.elements;
    send(async () => { await act(id, { reason: reason?.value.trim(), outcome: outcome?.value }); changed(name); });
  };
  return html`<${Dialog} title=${title} close=${close}><form class="asked" onSubmit=${submit}><p class="note">${note}</p>
    ${name === "close" && html`<label>Outcome <select name="outcome">${["completed", "failed", "cancelled"].map((one) => html`<option>${one}</option>`)}</select></label>`}
    ${hasReason && html`<label>Reason <textarea name="reason" rows="2" required autofocus></textarea></label>`}
    ${isDeletion && html`<label><span>Type <code>${id}</code> to delete it</span><input type="text" autofocus autocomplete="off" value=${typed} onInput=${(event) => type(event.target.value)} /></label>`}
    ${problem && html`<p class="bad" role="alert">${problem}</p>`}
    <button type="submit" disabled=${busy || (isDeletion && typed !== id)}>${title}</button></form><//>`;
}
