// Usage of a session, from its outline: so at any length. Costs only where events say them.
import { useEffect, useState } from "preact/hooks";
import { get, sessionPath } from "../api/client.js";
import { COMPACTION, Outline, TABLED_EVENTS, TOOL } from "../api/outline.js";
import { html } from "../parts/html.js";
import { Links } from "../parts/links.js";
import { exact, money, short } from "../parts/number.js";
import { Failed, Loading } from "../parts/states.js";
import { oneLine, plural } from "../reading/text.js";
import { go, route, sessionAddress } from "../router.js";

/** The view of its own: the same as the panel beside a session. */
export default function Usage() {
  const { id } = route.value, [made, set] = useState(null), [error, fail] = useState(null);
  useEffect(() => {
    document.title = `Usage of ${id} · Durable Sessions`;
    const outline = new Outline(id, () => {});
    Promise.all([get(sessionPath(id)), outline.open()]).then(([info]) =>
      set({ info, one: { outline, session: id, show: (position) => go(sessionAddress(id, { at: position })) } }), fail);
    return () => { outline.closed = true; };
  }, [id]);
  if (error) return html`<${Failed} alone error=${error} />`;
  return html`<div class="toolbar"><h1>Usage</h1><a href=${sessionAddress(id)}><bdi>${oneLine(made?.info.title || id, 120)}</bdi></a><span class="room"></span><${Links} path=${sessionPath(id, "/outline")} params=${{ points: 1000 }} /></div>
    <div class="found used">${made ? html`<${UsagePanel} ...${made} />` : html`<${Loading} />`}</div>`;
}

/** How many bytes the results of each tool have: that is what fills the context. */
function resultBytes(outline, blocks) {
  const tools = new Map();
  for (const block of blocks) {
    for (let i = 0; i < block.count; i++) {
      if (block.role[i] !== TOOL || !block.pair[i]) continue;
      const other = block.from + i + block.pair[i], home = blocks.find((one) => other >= one.from && other < one.from + one.count);
      const name = outline.names[block.name[i] - 1] ?? "unnamed", known = tools.get(name) ?? [0, 0];
      if (home) tools.set(name, [known[0] + 1, known[1] + home.bytes[other - home.from]]);
    }
  }
  return [...tools].sort((a, b) => b[1][1] - a[1][1]).slice(0, 20);
}

export function UsagePanel({ one, info, leap }) {
  const [requests, set] = useState(null), [tools, setTools] = useState([]), [compactions, setCompactions] = useState([]);
  const { outline } = one, isAll = outline.events <= TABLED_EVENTS;
  useEffect(() => {
    outline.lastBlocks().then((blocks) => {
      set(blocks.flatMap((block) => block.requests.map(([at, ...rest]) => [block.from + at, ...rest])));
      setTools(resultBytes(outline, blocks));
      setCompactions(blocks.flatMap((block) => Array.from({ length: block.count }, (_, i) => i).filter((i) => block.flags[i] & COMPACTION).map((i) => block.from + i)));
    }, () => set([]));
  }, [Math.floor(outline.events / 100)]);
  if (!requests) return null;
  const sum = (at) => requests.reduce((all, request) => all + (request[at] ?? 0), 0), cost = sum(5);
  const used = info.usage ?? {};
  const rows = [["Model requests", exact(requests.length)], ["Uncached in", exact(sum(1))], ["Cache read", exact(sum(2))], ["Cache written", exact(sum(3))], ["Out", exact(sum(4))],
    ...(cost ? [["Cost, as recorded", money(cost / 1e6)]] : [])];
  return html`${!isAll && html`<p class="note">Of the last ${exact(TABLED_EVENTS)} events; in all ${exact((used.input_tokens ?? 0) + (used.cache_read_input_tokens ?? 0))} tokens in, ${exact(used.output_tokens ?? 0)} out.</p>`}
    <dl class="figures">${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    <h2>Context by request</h2><${Curve} requests=${requests} compactions=${compactions} go=${(position) => leap(() => one.show(position))} />
    ${tools.length > 0 && html`<h2>Results by tool</h2><table class="plain-table"><thead><tr><th>Tool</th><th class="n">Results</th><th class="n">Bytes</th></tr></thead>
      <tbody>${tools.map(([name, [count, bytes]]) => html`<tr key=${name}><th scope="row"><bdi>${oneLine(name, 60)}</bdi></th><td class="n">${exact(count)}</td><td class="n">${exact(bytes)}</td></tr>`)}</tbody></table>`}`;
}

function Curve({ requests, compactions, go }) {
  if (!requests.length) return html`<p class="note">No model request was recorded.</p>`;
  const step = Math.max(1, Math.ceil(requests.length / 120)), shown = requests.filter((_, at) => at % step === 0);
  const most = Math.max(1, ...shown.map((one) => one[1] + one[2] + one[3]));
  const wide = 100 / shown.length;
  return html`<svg class="curve" viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label=${`Context of ${requests.length} requests, at most ${short(most)} tokens`}>${shown.map((one, at) => {
    const cached = (one[2] / most) * 38, fresh = ((one[1] + one[3]) / most) * 38;
    return html`<g onClick=${() => go(one[0])}><rect class="cached" x=${at * wide} y=${40 - cached} width=${wide * 0.85} height=${cached} /><rect class="fresh" x=${at * wide} y=${40 - cached - fresh} width=${wide * 0.85} height=${fresh} /></g>`;
  })}${[...new Set(compactions.map((position) => shown.filter((one) => one[0] < position).length * wide))].map((x) => html`<line class="compacted" x1=${x} x2=${x} y1="0" y2="40" />`)}</svg>
    <p class="origin">At most ${exact(most)} tokens; pale is what came from the cache${compactions.length ? `; ${exact(compactions.length)} ${plural(compactions.length, "compaction")} marked` : ""}${step > 1 ? `; every ${step}th request` : ""}.</p>`;
}
