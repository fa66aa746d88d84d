// Glyphs: shapes first, colours second. Paths of 16 pixels.
import { html } from "./html.js";

const SHAPES = {
  user: ["M4 3l7 5-7 5z", true],
  agent: ["M8 3.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9z", true],
  thinking: ["M8 3.2v.1M11.4 4.6v.1M12.8 8v.1M11.4 11.4v.1M8 12.8v.1M4.6 11.4v.1M3.2 8v.1M4.6 4.6v.1", false],
  tool: ["M5 3.5h6A1.5 1.5 0 0 1 12.500 5v6a1.5 1.5 0 0 1-1.5 1.5H5A1.5 1.5 0 0 1 3.500 11V5A1.5 1.5 0 0 1 5 3.500z", true],
  failed: ["M3.500 3.500h9v9h-9zM5.700 5.700l4.600 4.600M10.300 5.700l-4.600 4.600", false],
  open: ["M4 4h8v8H4z", false],
  result: ["M3 8h8M8 4.500L11.500 8 8 11.500", false],
  system: ["M8 3l5 5-5 5-5-5z", true],
  error: ["M8 2.500l6 11H2z", true],
  status: ["M3 8h10", false],
  other: ["M8 6.500a1.500 1.500 0 1 0 0 3 1.500 1.500 0 0 0 0-3z", true],
  compaction: ["M4 2.500h5L12 5.500v8H4zM9 2.500v3h3M6 10h4", false],
  approval: ["M5 3h6l3 5-3 5H5L2 8zM6.800 6.600a1.300 1.300 0 1 1 1.700 1.300c-.4.2-.5.4-.5.8M8 10.900v.1", false],
  pass: ["M3 8.500l3.200 3.200L13 4.800", false],
  fail: ["M4 4l8 8M12 4l-8 8", false],
  unclear: ["M3 9c1.700-3 3.300-3 5 0s3.300 3 5 0", false],
  budget: ["M2.500 6h11v4h-11zM4 8h5", false],
  memory: ["M6 3.500L10.500 8 6 12.500 1.500 8zM10.500 4.500L14 8l-3.500 3.500", false],
  sandbox: ["M8 2.500l5 2.800v5.400l-5 2.800-5-2.800V5.300zM3 5.300l5 2.800 5-2.800M8 8.100v5.400", false],
  fork: ["M5 2.500v11M5 9c0-3 6-1.500 6-5.500", false],
  redacted: ["M3 12L12 3M3 7l4-4M8 13l5-5", false],
  lease: ["M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3zM8 5.500V8l2 1.500", false],
  goal: ["M4 13.500v-11l8 3-8 3", false],
};

export function Icon({ name }) {
  const [path, filled] = SHAPES[name] ?? SHAPES.other;
  return html`<svg class=${`icon ${name} ${filled ? "filled" : ""}`} viewBox="0 0 16 16" aria-hidden="true"><path d=${path} /></svg>`;
}

const BY_TITLE = { Approval: "approval", Budget: "budget", Memory: "memory", Sandbox: "sandbox", Lease: "lease",
  Goal: "goal", "Outcome wanted": "goal", Adopted: "fork", Redaction: "redacted", Context: "compaction" };

/** @returns {string} the glyph of an entry */
export function glyph(entry, hasResult, isLive) {
  if (entry.erased) return "redacted";
  if (entry.role === "tool") return entry.failed ? "failed" : hasResult || isLive === undefined ? "tool" : "open";
  if (entry.title === "Evaluation") return /: ?pass|^pass/.test(entry.line) ? "pass" : entry.failed ? "fail" : "unclear";
  if (entry.role === "status") return BY_TITLE[entry.title] ?? "status";
  return entry.role;
}
