// Colours of terminals (SGR), mapped to ours; every other escape sequence is taken out.
import { clean } from "./text.js";

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
const PIECES_MAX = 2000;

/** @returns {Array<{text: string, kind: string}>} pieces of text, each with the classes of its colours */
export function pieces(text) {
  if (!text.includes("\x1b[")) return [{ text: clean(text), kind: "" }];
  const found = [];
  let state = { color: "", bold: false, dim: false, italic: false, underline: false };
  let at = 0;
  const codes = /\x1b\[([0-9;]{0,40})m/g;
  const add = (end) => {
    const plain = clean(text.slice(at, end));
    if (!plain) return;
    const kind = [state.color && `ansi-${state.color}`, state.bold && "ansi-bold", state.dim && "ansi-dim",
      state.italic && "ansi-italic", state.underline && "ansi-underline"].filter(Boolean).join(" ");
    found.push({ text: plain, kind });
  };
  for (let match; (match = codes.exec(text)) && found.length < PIECES_MAX;) {
    add(match.index);
    at = codes.lastIndex;
    state = changed(state, match[1].split(";").map(Number));
  }
  add(text.length);
  return found;
}

function changed(state, codes) {
  let next = { ...state };
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i];
    if (code === 0) next = { color: "", bold: false, dim: false, italic: false, underline: false };
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 3) next.italic = true;
    else if (code === 4) next.underline = true;
    else if (code === 22) next.bold = next.dim = false;
    else if (code === 39) next.color = "";
    else if (code >= 30 && code <= 37) next.color = NAMES[code - 30];
    else if (code >= 90 && code <= 97) next.color = NAMES[code - 90];
    else if (code === 38 || code === 48) i += codes[i + 1] === 5 ? 2 : 4; // palettes of others are left out
  }
  return next;
}
