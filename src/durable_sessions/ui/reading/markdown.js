// Markdown as a tree of elements from a white list: [name, attributes, children]. HTML in it is text, and nothing is
// ever parsed as HTML. Only the lexer of `marked` is used.
import { lexer } from "marked";

const CHARACTERS_MAX = 65_536, DEPTH_MAX = 40, NODES_MAX = 6000;

/** @returns {Array<Array | string>} the tree of a text; plain lines if it is too long or cannot be read */
export function tree(text) {
  if (text.length > CHARACTERS_MAX) return [["p", { class: "as-is" }, [text]]];
  try {
    const state = { nodes: 0 };
    return blocks(lexer(text, { gfm: true }), state, 0);
  } catch { // deep nesting overflows the lexer's stack
    return [["p", { class: "as-is" }, [text]]];
  }
}

function blocks(tokens, state, depth) {
  if (depth > DEPTH_MAX || (state.nodes += tokens.length) > NODES_MAX) return [tokens.map((one) => one.raw).join("")];
  return tokens.flatMap((token) => block(token, state, depth + 1));
}

function block(token, state, depth) {
  switch (token.type) {
    case "space": case "def": return [];
    case "heading": return [[`h${Math.min(6, token.depth + 3)}`, {}, inline(token.tokens, state, depth)]];
    case "paragraph": return [["p", {}, inline(token.tokens, state, depth)]];
    case "text": return token.tokens ? inline(token.tokens, state, depth) : [unescape(token.text)];
    case "code": return [["pre", { class: "code" }, [token.text]]];
    case "blockquote": return [["blockquote", {}, blocks(token.tokens, state, depth)]];
    case "hr": return [["hr", {}, []]];
    case "list": return [[token.ordered ? "ol" : "ul", token.ordered && token.start > 1 ? { start: token.start } : {},
      token.items.map((item) => ["li", {}, [...(item.task ? [item.checked ? "☑ " : "☐ "] : []),
        ...blocks(item.tokens, state, depth)]])]];
    case "table": return [["table", {}, [
      ["thead", {}, [["tr", {}, token.header.map((cell) => ["th", {}, inline(cell.tokens, state, depth)])]]],
      ["tbody", {}, token.rows.map((row) => ["tr", {}, row.map((cell) => ["td", {}, inline(cell.tokens, state, depth)])])],
    ]]];
    default: return [["p", {}, [token.raw ?? ""]]]; // HTML, as text
  }
}

function inline(tokens, state, depth) {
  if (depth > DEPTH_MAX || (state.nodes += tokens?.length ?? 0) > NODES_MAX) {
    return [(tokens ?? []).map((one) => one.raw).join("")];
  }
  return (tokens ?? []).flatMap((token) => span(token, state, depth + 1));
}

function span(token, state, depth) {
  switch (token.type) {
    case "strong": return [["strong", {}, inline(token.tokens, state, depth)]];
    case "em": return [["em", {}, inline(token.tokens, state, depth)]];
    case "del": return [["del", {}, inline(token.tokens, state, depth)]];
    case "codespan": return [["code", {}, [token.text]]];
    case "br": return [["br", {}, []]];
    case "link": return link(token.href, inline(token.tokens, state, depth), token.text);
    case "image": return link(token.href, [token.text || "image"], token.text || "image");
    case "escape": case "text": return token.tokens ? inline(token.tokens, state, depth) : [unescape(token.text)];
    default: return [token.raw ?? ""];
  }
}

/** A link to elsewhere; the host is named if the text seems to name another. Paths are no links. */
export function link(href, children, text) {
  if (!/^(https?:\/\/|mailto:)/i.test(href)) return [...children, ...(href && href !== text ? [` (${href})`] : [])];
  let host = "";
  try { host = new URL(href).host; } catch { return children; }
  const named = /([\w-]+\.)+[a-z]{2,}/i.exec(text)?.[0];
  const isOther = named && host && named.toLowerCase() !== host.toLowerCase();
  return [["a", { href, rel: "noopener noreferrer nofollow", target: "_blank" }, children],
    ...(isOther ? [["span", { class: "host" }, [` (${host})`]]] : [])];
}

const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };
const unescape = (text) => text.replace(/&(?:amp|lt|gt|quot|#39);/g, (one) => ENTITIES[one]);
