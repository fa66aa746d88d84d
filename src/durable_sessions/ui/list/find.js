// Find in a session: where the hits are comes from the index alone; words are marked in what is drawn.
import { get, sessionPath } from "../api/client.js";

/** @returns {Promise<{positions: number[], total: number, truncated: boolean, upToDate: boolean}>} */
export async function find(session, q, signal) {
  const found = await get(sessionPath(session, "/events"), { q, fields: "positions" }, { signal });
  return { positions: found.positions, total: found.total_hits, truncated: found.truncated, upToDate: found.up_to_date };
}

/** The words of a query, without its filters. */
export function wordsOf(q) {
  return q.replace(/\b(type|name|is|role|ref):\S+/g, " ").replace(/["+*]/g, " ").split(/\s+/)
    .filter((word) => word && !word.startsWith("-")).map((word) => word.toLowerCase()).slice(0, 16);
}

/** Mark words in an element by ranges, without touching its text. */
export function markWords(root, words) {
  if (!CSS.highlights) return;
  const ranges = [];
  if (words.length) {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode()) && ranges.length < 1000;) {
      const text = node.data.toLowerCase();
      if (text.length !== node.data.length) continue;
      for (const word of words) {
        for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, at + word.length);
          ranges.push(range);
        }
      }
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}
