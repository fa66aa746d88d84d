// Texts of strangers, made fit to be shown. The same as `rendering/text.py`; a golden file holds the two together.

const ESCAPES = new RegExp(
  "\\x1b\\[[0-?]*[ -/]*[@-~]" + // CSI: colours, cursor
  "|\\x1b[\\]PX^_][^\\x07\\x1b]{0,4096}(?:\\x07|\\x1b\\\\)" + // OSC, DCS, SOS, PM, APC: titles, links, clipboard
  "|\\x1b[ -/]+[0-~]" + // character sets and the like
  "|\\x1b[0-Z\\\\-~]", "g");
const LINE_ENDS = /\r\n|[\r\x0b\x0c\x85\u2028\u2029]/g;
const UNSAFE = new RegExp(
  "[\\x00-\\x08\\x0e-\\x1f\\x7f\\x80-\\x9f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069" +
  "\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff\\ufdd0-\\ufdef\\ufffe\\uffff]", "gu");
const PLAIN = /^[\x20-\x7e]*$/;

/** @param {string} text @returns {string} the text without escape sequences, other control characters visible */
export function clean(text) {
  if (PLAIN.test(text)) return text;
  return text.replace(ESCAPES, "").replace(LINE_ENDS, "\n").replace(UNSAFE, visible);
}

function visible(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "␡" : "\ufffd";
}

/** @param {string} text @returns {string} the first `most` characters, without a half of a pair */
export function cut(text, most) {
  if (text.length <= most) return text;
  return Array.from(text.slice(0, 2 * most)).slice(0, most).join("");
}

/** @returns {string} a clean text as one line of at most `most` characters */
export function oneLine(text, most = 120) {
  const limit = 8 * most + 1024;
  const line = clean(cut(text, limit)).replace(/\s+/g, " ").trim();
  const long = text.length > limit && Array.from(text).length > limit;
  const characters = line.length > most ? Array.from(line) : [];
  if (characters.length > most) return characters.slice(0, most - 1).join("") + "…";
  return long ? cut(line, most - 1) + "…" : line;
}

/** @returns {string} a JSON value as clean text: a string as it is, anything else as JSON */
export function compact(value) {
  return clean(typeof value === "string" ? value : JSON.stringify(value) ?? "null");
}

export function pretty(value) {
  return clean(JSON.stringify(value, null, 2) ?? "null");
}

export function linesOf(text) {
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}

export function plural(count, noun) {
  return count === 1 ? noun : `${noun}s`;
}

export const count = (number) => number.toLocaleString("en-US");

export function size(bytes) {
  let amount = bytes;
  let unit = "B";
  for (unit of ["B", "kB", "MB", "GB"]) {
    if (amount < 1000 || unit === "GB") break;
    amount /= 1000;
  }
  return unit === "B" || amount >= 100 ? `${amount.toFixed(0)} ${unit}` : `${amount.toFixed(1)} ${unit}`;
}

/** @returns {string} a text as one word of a command line */
export const shellWord = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
