// The threads of a session: what each has done, from the outline, and how it stands.
import { useEffect, useState } from "preact/hooks";
import { get, sessionPath } from "../api/client.js";
import { FAILED, RESULT, TABLED_EVENTS } from "../api/outline.js";
import { laneOf } from "../list/transcript.js";
import { html } from "../parts/html.js";
import { exact, short } from "../parts/number.js";
import { Failed } from "../parts/states.js";
import { oneLine } from "../reading/text.js";

const SHOWN_MAX = 200;

/** What each lane has: its events and failures, where it begins, its last context and all tokens out. Lane 0 is the primary thread. */
function counted(outline, blocks) {
  const lanes = Array.from({ length: outline.threads.length + 1 }, () => ({ events: 0, failed: 0, first: null, context: 0, out: 0 }));
  for (const block of blocks) {
    for (let i = 0; i < block.count; i++) {
      const lane = lanes[block.thread[i]];
      lane.events++;
      lane.first ??= block.from + i;
      if (block.flags[i] & FAILED && block.role[i] !== RESULT) lane.failed++;
    }
    for (const [i, input, read, written, out] of block.requests) {
      const lane = lanes[block.thread[i]];
      lane.context = input + read + written;
      lane.out += out;
    }
  }
  return lanes;
}

export function ThreadsPanel({ one, change, leap }) {
  const [found, set] = useState(null), [error, fail] = useState(null), { outline } = one;
  useEffect(() => {
    Promise.all([outline.lastBlocks(), get(sessionPath(one.session, "/threads"), { limit: 100 })])
      .then(([blocks, page]) => set({ lanes: counted(outline, blocks.filter(Boolean)), states: new Map(page.data.map((thread) => [thread.id, thread.status])) }), fail);
  }, [Math.floor(outline.events / 100)]);
  if (error) return html`<${Failed} error=${error} />`;
  if (!found) return null;
  const { lanes, states } = found;
  if (lanes.length === 1) return html`<p class="note">This session has no threads beside the primary one.</p>`;
  return html`${outline.events > TABLED_EVENTS && html`<p class="note">Of the last ${exact(TABLED_EVENTS)} events.</p>`}
    <div class="scroll-x" tabindex="0" role="region" aria-label="Threads"><table class="plain-table"><thead><tr><th>Thread</th><th class="n">Events</th><th class="n">Failed</th><th class="n">Context</th><th class="n">Out</th><th class="n">From</th></tr></thead>
    <tbody>${lanes.slice(0, SHOWN_MAX).map((lane, number) => {
      const thread = outline.threads[number - 1], name = thread ? oneLine(outline.threadName(number), 40) : "primary";
      return html`<tr key=${number}><td><span class=${`swatch lane-${laneOf(number)}`}></span>${thread ? html`<button type="button" class="quiet-button" title=${thread.id} onClick=${() => change({ only: `thread:${thread.id}` })}><bdi>${name}</bdi></button>` : name}${thread && !["idle", undefined].includes(states.get(thread.id)) && html` <span class="chip">${states.get(thread.id)}</span>`}</td>
        <td class="n">${exact(lane.events)}</td><td class=${`n ${lane.failed ? "bad" : ""}`}>${lane.failed ? `×${exact(lane.failed)}` : "–"}</td>
        <td class="n">${lane.context ? short(lane.context) : "–"}</td><td class="n">${lane.out ? short(lane.out) : "–"}</td>
        <td class="n">${lane.first === null ? "–" : html`<button type="button" class="quiet-button" onClick=${() => leap(() => one.show(lane.first))}>#${exact(lane.first)}</button>`}</td></tr>`;
    })}</tbody></table></div>${lanes.length > SHOWN_MAX && html`<p class="note">And ${exact(lanes.length - SHOWN_MAX)} more.</p>`}`;
}
