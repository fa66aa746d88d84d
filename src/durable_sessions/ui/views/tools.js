// The tools of a session: how often each was called, how often it failed, how long it took. From the outline alone.
import { useEffect, useState } from "preact/hooks";
import { FAILED, HAS_RESULT, TABLED_EVENTS, TOOL } from "../api/outline.js";
import { html } from "../parts/html.js";
import { duration, exact } from "../parts/number.js";
import { oneLine } from "../reading/text.js";

function counted(outline, blocks) {
  const tools = new Map();
  for (const block of blocks) {
    for (let i = 0; i < block.count; i++) {
      if (block.role[i] !== TOOL) continue;
      const name = outline.names[block.name[i] - 1] ?? "unnamed";
      if (!tools.has(name)) tools.set(name, { name, calls: 0, failed: 0, open: 0, took: [], lastFailed: null });
      const tool = tools.get(name), other = block.from + i + block.pair[i], home = blocks.find((one) => other >= one.from && other < one.from + one.count);
      tool.calls++;
      if (block.flags[i] & FAILED) { tool.failed++; tool.lastFailed = block.from + i; }
      if (!(block.flags[i] & HAS_RESULT)) tool.open++;
      else if (block.pair[i] && home) tool.took.push(Math.max(0, home.time(other - home.from) - block.time(i)));
    }
  }
  return [...tools.values()].sort((a, b) => b.calls - a.calls);
}

const quantile = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];

export function ToolsPanel({ one, change, leap }) {
  const [tools, set] = useState(null), { outline } = one, isAll = outline.events <= TABLED_EVENTS;
  useEffect(() => {
    outline.lastBlocks().then((blocks) => set(counted(outline, blocks.filter(Boolean))), () => set([]));
  }, [Math.floor(outline.events / 100)]);
  if (!tools) return null;
  if (!tools.length) return html`<p class="note">No tool was called.</p>`;
  return html`${!isAll && html`<p class="note">Of the last ${exact(TABLED_EVENTS)} events.</p>`}<div class="scroll-x" tabindex="0" role="region" aria-label="Tools"><table class="plain-table"><thead><tr><th>Tool</th><th class="n">Calls</th><th class="n">Failed</th><th class="n">Median</th><th class="n">p95</th></tr></thead>
    <tbody>${tools.slice(0, 100).map((tool) => {
      const took = tool.took.sort((a, b) => a - b);
      return html`<tr key=${tool.name}><td><button type="button" class="quiet-button" onClick=${() => change({ only: `tool:${tool.name}` })}><bdi>${oneLine(tool.name, 40)}</bdi></button></td>
        <td class="n">${exact(tool.calls)}${tool.open ? html` <span class="origin">${exact(tool.open)} open</span>` : ""}</td>
        <td class="n">${tool.failed ? html`<button type="button" class="quiet-button bad" onClick=${() => leap(() => one.show(tool.lastFailed))}>×${exact(tool.failed)}</button>` : "–"}</td>
        <td class="n">${took.length ? duration(quantile(took, 0.5)) : "–"}</td><td class="n">${took.length ? duration(quantile(took, 0.95)) : "–"}</td></tr>`;
    })}</tbody></table></div>`;
}
