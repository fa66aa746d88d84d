// The parts of an entry as elements: text nodes only, whatever is in them.
import { h } from "preact";
import { useEffect, useState } from "preact/hooks";
import { base } from "../api/client.js";
import { Copy } from "../parts/copy.js";
import { html } from "../parts/html.js";
import { pieces } from "../reading/ansi.js";
import { pictureLabel } from "../reading/content.js";
import { hiddenIn } from "../reading/hidden.js";
import { tree } from "../reading/markdown.js";
import { count, plural } from "../reading/text.js";

const SHOWN_MAX = 65_536, LINES = 40, PICTURE_BYTES_MAX = 8 * 1024 * 1024, PICTURE_ASKED = 1024 * 1024;
const MAGIC = [["iVBORw0KGgo", "image/png"], ["/9j/", "image/jpeg"], ["R0lGOD", "image/gif"], ["UklGR", "image/webp"]];

/** @param {{part: object, bad?: boolean, short?: boolean}} props */
export function Part({ part, bad }) {
  switch (part.kind) {
    case "prose": return html`<${Prose} text=${part.text} />`;
    case "pre": return html`<${Pre} part=${part} bad=${bad} />`;
    case "diff": return html`<${Diff} lines=${part.lines} />`;
    case "fields": return html`<dl class="fields">${part.rows.map(([name, value]) =>
      html`<div><dt><bdi>${name}</bdi></dt><dd><bdi>${value}</bdi></dd></div>`)}</dl>`;
    case "picture": return html`<${Picture} part=${part} />`;
    default: return null;
  }
}

const element = (node) => (typeof node === "string" ? limited(node) : h(node[0], node[1], node[2].map(element)));

/** At most eight combining marks on a character: more paint over their neighbours. */
const limited = (text) => text.replace(/(\p{M}{8})\p{M}+/gu, "$1");

export function Prose({ text }) {
  return html`<div class="prose" dir="auto">${tree(text).map(element)}</div>`;
}

function Hidden({ text }) {
  const found = hiddenIn(text);
  return found && html`<p class="hidden-note">${count(found.count)} hidden ${plural(found.count, "character")}: ${found.said}</p>`;
}

function Pre({ part, bad }) {
  const [shown, show] = useState(0);
  const text = part.raw ?? part.text;
  const lines = part.text.split("\n").length;
  const end = shown === 0 ? headEnd(text) : Math.min(text.length, shown);
  const more = () => show(Math.min(text.length, Math.max(end, SHOWN_MAX * Math.ceil((end + 1) / SHOWN_MAX))));
  return html`<div class=${`block ${bad ? "bad-output" : ""}`}>
    <div class="block-head">${part.label && html`<span class="caption">${part.label}</span>`}<${Copy} text=${text} /></div>
    <${Hidden} text=${text} />
    <pre dir="ltr">${pieces(limited(text.slice(0, end))).map((piece) =>
      (piece.kind ? html`<span class=${piece.kind}>${piece.text}</span>` : piece.text))}</pre>
    ${end < text.length && html`<button type="button" class="quiet-button" onClick=${more}>${allOf(lines > 1 ? lines : text.length, lines > 1 ? "lines" : "characters", text.length > SHOWN_MAX)}</button>`}
  </div>`;
}

/** What a button shows: all, or the next part of all. */
const allOf = (many, noun, isLonger) => `${isLonger ? "More of" : "All"} ${count(many)} ${noun}`;

function headEnd(text) {
  let at = -1;
  for (let line = 0; line < LINES; line++) {
    at = text.indexOf("\n", at + 1);
    if (at < 0) return Math.min(text.length, 4000);
  }
  return Math.min(at, 4000);
}

export function Diff({ lines }) {
  const [most, show] = useState(60), shown = lines.slice(0, most);
  const kinds = { "+": "came", "-": "went", "@": "where", "*": "where" };
  return html`<div class="block"><pre class="diff" dir="ltr">${shown.map((line) =>
    html`<span class=${kinds[line[0]] ?? ""}>${limited(line)}${"\n"}</span>`)}</pre>
    ${shown.length < lines.length && html`<button type="button" class="quiet-button" onClick=${() => show(most < 2000 ? 2000 : most + 2000)}>${allOf(lines.length, "lines", lines.length > (most < 2000 ? 2000 : most + 2000))}</button>`}</div>`;
}

function Picture({ part }) {
  const label = pictureLabel(part);
  const bytes = Math.floor(part.base64.length * 3 / 4);
  const [wanted, want] = useState(bytes <= PICTURE_ASKED && !part.url);
  const [source, setSource] = useState("");
  useEffect(() => {
    if (!wanted || part.url) return undefined;
    if (part.artifact) { setSource(`${base}/v1/artifacts/${part.artifact}`); return undefined; }
    const made = blobUrl(part.base64);
    setSource(made);
    return () => made && URL.revokeObjectURL(made);
  }, [wanted, part]);
  if (part.url || (!part.artifact && bytes > PICTURE_BYTES_MAX)) return html`<p class="named">${label}</p>`;
  if (!wanted) return html`<button type="button" class="quiet-button" onClick=${() => want(true)}>Show ${label}</button>`;
  return html`<figure>${source && html`<img src=${source} alt=${label} />`}<figcaption>${label}</figcaption></figure>`;
}

function blobUrl(text) {
  const type = MAGIC.find(([magic]) => text.startsWith(magic))?.[1]; // what the event claims does not count
  if (!type) return "";
  try {
    const data = atob(text);
    return URL.createObjectURL(new Blob([Uint8Array.from(data, (one) => one.charCodeAt(0))], { type }));
  } catch {
    return "";
  }
}

/** A JSON value as a tree that opens; at most 500 members of one value are drawn. */
export function Json({ value, name, depth = 0 }) {
  const [open, toggle] = useState(depth < 2);
  const label = name === undefined ? null : html`<span class="json-name">${name}: </span>`;
  if (value === null || typeof value !== "object") {
    const text = JSON.stringify(value) ?? "";
    return html`<div class=${`json-leaf ${typeof value}`}>${label}<bdi>${limited(text.slice(0, 4000))}${text.length > 4000 ? " …" : ""}</bdi></div>`;
  }
  const entries = Object.entries(value), isList = Array.isArray(value);
  if (!entries.length) return html`<div class="json-leaf">${label}${isList ? "[]" : "{}"}</div>`;
  if (depth > 128) return html`<div class="json-leaf">${label}…</div>`;
  return html`<div class="json-node"><button type="button" aria-expanded=${open} onClick=${() => toggle(!open)}>${label}
    ${isList ? `[${entries.length}]` : `{${entries.length}}`}</button>
    ${open && html`<div class="json-inside">${entries.slice(0, 500).map(([key, one]) =>
      html`<${Json} key=${key} name=${isList ? key : key.slice(0, 200)} value=${one} depth=${depth + 1} />`)}
      ${entries.length > 500 && html`<p class="named">and ${count(entries.length - 500)} more</p>`}</div>`}</div>`;
}
