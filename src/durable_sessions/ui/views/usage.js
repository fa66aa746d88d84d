// Usage of a session, from its outline: so at any length. Costs only where events say them.
import { useEffect, useState } from "preact/hooks";
import { html } from "../parts/html.js";
import { exact, money, short } from "../parts/number.js";

const BLOCKS_MAX = 16;

export function UsagePanel({ one, info }) {
  const [requests, set] = useState(null);
  const { outline } = one, isAll = outline.blockCount <= BLOCKS_MAX;
  useEffect(() => {
    const numbers = Array.from({ length: Math.min(outline.blockCount, BLOCKS_MAX) }, (_, at) => outline.blockCount - 1 - at).reverse();
    Promise.all(numbers.map((number) => outline.fetch(number))).then((blocks) =>
      set(blocks.flatMap((block) => block.requests.map(([at, ...rest]) => [block.from + at, ...rest]))), () => set([]));
  }, [Math.floor(outline.events / 100)]);
  if (!requests) return null;
  const sum = (at) => requests.reduce((all, request) => all + (request[at] ?? 0), 0), cost = sum(5);
  const used = info.usage ?? {};
  const rows = [["Model requests", exact(requests.length)], ["Uncached in", exact(sum(1))], ["Cache read", exact(sum(2))], ["Cache written", exact(sum(3))], ["Out", exact(sum(4))],
    ...(cost ? [["Cost, as recorded", money(cost / 1e6)]] : [])];
  return html`<h2>Usage</h2>${!isAll && html`<p class="note">Of the last ${exact(BLOCKS_MAX * 4096)} events; in all ${exact((used.input_tokens ?? 0) + (used.cache_read_input_tokens ?? 0))} tokens in, ${exact(used.output_tokens ?? 0)} out.</p>`}
    <table class="plain-table"><tbody>${rows.map(([name, value]) => html`<tr><th scope="row">${name}</th><td class="n">${value}</td></tr>`)}</tbody></table>
    <h2>Context by request</h2><${Curve} requests=${requests} go=${(position) => one.show(position)} />`;
}

function Curve({ requests, go }) {
  if (!requests.length) return html`<p class="note">No model request was recorded.</p>`;
  const step = Math.max(1, Math.ceil(requests.length / 120)), shown = requests.filter((_, at) => at % step === 0);
  const most = Math.max(1, ...shown.map((one) => one[1] + one[2] + one[3]));
  const wide = 100 / shown.length;
  return html`<svg class="curve" viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label=${`Context of ${requests.length} requests, at most ${short(most)} tokens`}>${shown.map((one, at) => {
    const cached = (one[2] / most) * 38, fresh = ((one[1] + one[3]) / most) * 38;
    return html`<g onClick=${() => go(one[0])}><rect class="cached" x=${at * wide} y=${40 - cached} width=${wide * 0.85} height=${cached} /><rect class="fresh" x=${at * wide} y=${40 - cached - fresh} width=${wide * 0.85} height=${fresh} /></g>`;
  })}</svg><p class="origin">At most ${exact(most)} tokens; pale is what came from the cache${step > 1 ? `; every ${step}th request` : ""}.</p>`;
}
