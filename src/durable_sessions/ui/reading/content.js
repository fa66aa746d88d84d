// The content of an event: blocks of text, images and documents, as parts. The same as `rendering/content.py`.
import { clean, compact, oneLine, pretty, size } from "./text.js";
import { isObject, pre } from "./tools.js";

const ARTIFACT = /^(?:[^]*\/)?v1\/artifacts\/([0-9a-f]{64})(?:[?#][^]*)?$/;
const word = (holder, name) => (typeof holder[name] === "string" ? oneLine(holder[name], 200) : "");

/** @returns {Array<object>} the parts of a content member: a text, a block, or a list of them */
export function partsOf(content, isProse) {
  if (content === null || content === undefined || content === "") return [];
  return (Array.isArray(content) ? content : [content]).flatMap((block) => blockParts(block, isProse));
}

function blockParts(block, isProse) {
  if (typeof block === "string") return [textPart(block, isProse)];
  if (!isObject(block)) return [data(block)];
  const { type, text } = block;
  if (typeof text === "string" && [undefined, null, "text", "input_text", "output_text"].includes(type)) {
    return [textPart(text, isProse)];
  }
  if (type === "thinking" && typeof block.thinking === "string") return [{ kind: "prose", text: clean(block.thinking) }];
  if (type === "image") return [picture(block)];
  if (type === "document") return documentParts(block);
  if (type === "search_result") {
    const rows = [["source", word(block, "source")], ["title", word(block, "title")]];
    return [{ kind: "fields", rows }, ...partsOf(block.content, isProse)];
  }
  if (["redacted", "redacted_thinking", "encrypted_content"].includes(type)) return [pre(`(${type.split("_")[0]})`)];
  return [data(block)];
}

const textPart = (text, isProse) => (isProse ? { kind: "prose", text: clean(text) } : { ...pre(clean(text)), raw: text });

function data(value) {
  const short = compact(value);
  return pre(short.length <= 160 ? short : pretty(value), "", "json");
}

function picture(block) {
  const source = isObject(block.source) ? block.source : {};
  const mediaType = word(source, "media_type");
  const made = (more) => ({ kind: "picture", mediaType, base64: "", artifact: "", url: "", ...more });
  if (typeof source.data === "string" && source.data) return made({ base64: source.data });
  if (typeof source.url === "string" && source.url) {
    const match = ARTIFACT.exec(source.url);
    return made(match ? { artifact: match[1] } : { url: oneLine(source.url, 500) });
  }
  return made({ url: word(source, "file_id") });
}

export function pictureLabel(part) {
  const about = part.mediaType || "image";
  if (part.base64) return `${about}, ${size(Math.floor(part.base64.length * 3 / 4))}`;
  if (part.artifact) return `${about}, artifact ${part.artifact.slice(0, 12)}`;
  return part.url ? `${about} at ${part.url}` : about;
}

function documentParts(block) {
  const source = isObject(block.source) ? block.source : {};
  const title = word(block, "title") || "document";
  if (source.type === "text" && typeof source.data === "string") return [pre(clean(source.data), title)];
  const about = word(source, "media_type") || word(source, "type");
  const where = word(source, "url") || word(source, "file_id");
  const held = typeof source.data === "string" ? size(Math.floor(source.data.length * 3 / 4)) : "";
  return [{ kind: "fields", rows: [["document", [title, about, held, where].filter(Boolean).join(", ")]] }];
}

/** @returns {string} the readable text of parts */
export function textOf(parts) {
  return parts.map((part) => {
    switch (part.kind) {
      case "diff": return part.lines.join("\n");
      case "fields": return part.rows.map(([name, value]) => `${name}: ${value}`).join("\n");
      case "picture": return `[${pictureLabel(part)}]`;
      default: return part.text;
    }
  }).filter(Boolean).join("\n");
}
