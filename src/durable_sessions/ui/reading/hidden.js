// Characters that a reader does not see: zero-width ones, controls of direction, and the tags that can smuggle text.

const HIDDEN = /[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]|[\u{e0000}-\u{e007f}]/gu;
// What changes a command that is pasted into a terminal.
const DANGEROUS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]|\n$/u;

/** @param {string} text @returns {{count: number, said: string} | null} what is hidden in a text */
export function hiddenIn(text) {
  const found = text.match(HIDDEN);
  if (!found) return null;
  const tags = found.filter((one) => one.codePointAt(0) >= 0xe0000).map((one) => one.codePointAt(0) - 0xe0000);
  const smuggled = String.fromCharCode(...tags.filter((code) => code >= 0x20 && code < 0x7f).slice(0, 500));
  const codes = [...new Set(found)].slice(0, 12).map((one) => `U+${one.codePointAt(0).toString(16).toUpperCase()}`);
  const said = smuggled ? `“${smuggled}” in tag characters` : codes.join(" ");
  return { count: found.length, said };
}

/** @returns {boolean} whether a text is not what it looks like once it is pasted */
export function isDangerous(text) {
  return DANGEROUS.test(text);
}

/** @returns {string} the text with everything invisible as an escape */
export function escaped(text) {
  return text.replace(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]|\n$/gu,
    (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
}
