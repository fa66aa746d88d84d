// The whole session as a strip: failures, the size of the context, what was done, prompts. Densities, not presence.
const FAILURES = 12, CONTEXT = 22, LANE = 12, PROMPTS = 8;
export const STRIP_HEIGHT = FAILURES + CONTEXT + LANE + PROMPTS + 4;

/**
 * Draw the points of an outline: [from, user, agent, tool, failed, compactions, context, at_ms].
 * @param {HTMLCanvasElement} canvas @param {{shownPoints: number[][], events: number}} outline
 * @param {{hits?: number[]}} more
 */
export function drawStrip(canvas, outline, { hits = [] } = {}) {
  const width = canvas.clientWidth, height = canvas.clientHeight, ratio = devicePixelRatio || 1;
  if (!width || !height) return;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d"), colours = getComputedStyle(canvas);
  const colour = (name) => colours.getPropertyValue(`--${name}`);
  pen.scale(ratio, ratio);
  const bins = binned(outline, Math.max(1, Math.floor(width)));
  const scale = height / STRIP_HEIGHT, per = Math.max(1, outline.events / bins.length);
  const bar = (x, top, room, part, name) => {
    const tall = Math.max(2, part * room * scale);
    pen.fillStyle = colour(name);
    pen.fillRect(x, (top + room) * scale - tall, 1, tall);
  };
  let most = 1;
  for (const bin of bins) most = Math.max(most, bin.context);
  pen.fillStyle = colour("line");
  pen.beginPath();
  pen.moveTo(0, (FAILURES + CONTEXT) * scale);
  let context = 0;
  bins.forEach((bin, x) => {
    context = bin.context || context;
    pen.lineTo(x, (FAILURES + CONTEXT - (context / most) * (CONTEXT - 3)) * scale);
  });
  pen.lineTo(bins.length, (FAILURES + CONTEXT) * scale);
  pen.fill();
  bins.forEach((bin, x) => {
    const all = bin.user + bin.agent + bin.tool;
    const share = (many) => (per > 8 ? Math.min(1, (many / Math.max(1, all)) * 1.5) : 1);
    if (all) {
      const top = FAILURES + CONTEXT + 2, agents = (bin.agent / all) * LANE, tools = (bin.tool / all) * LANE;
      pen.fillStyle = colour("good");
      pen.fillRect(x, (top + LANE - tools) * scale, 1, tools * scale);
      pen.fillStyle = colour("agent");
      pen.fillRect(x, (top + LANE - tools - agents) * scale, 1, agents * scale);
    }
    if (bin.failed) bar(x, 0, FAILURES, share(bin.failed), "bad");
    if (bin.user) bar(x, FAILURES + CONTEXT + LANE + 4, PROMPTS, share(bin.user), "accent");
    if (bin.compactions) {
      pen.fillStyle = colour("thinking");
      pen.fillRect(x, FAILURES * scale, 1, CONTEXT * scale);
    }
  });
  pen.fillStyle = colour("warn");
  for (const hit of hits) pen.fillRect((hit / Math.max(1, outline.events)) * width, 0, 1.5, height);
}

/** The points in as many bins as there are pixels; a point that covers several is drawn in all of them. */
function binned(outline, width) {
  const bins = Array.from({ length: width }, () => ({ user: 0, agent: 0, tool: 0, failed: 0, compactions: 0, context: 0 }));
  const events = Math.max(1, outline.events), points = outline.shownPoints;
  points.forEach(([from, user, agent, tool, failed, compactions, context], at) => {
    const until = at + 1 < points.length ? points[at + 1][0] : events;
    const left = Math.min(width - 1, Math.floor((from / events) * width));
    const right = Math.max(left + 1, Math.floor((until / events) * width));
    // A long session has many points in a pixel; in a short one a point is several pixels wide, with a gap between.
    for (let x = left; x < Math.min(width, right - (right - left > 3 ? 1 : 0)); x++) {
      const bin = bins[x];
      bin.user += user;
      bin.agent += agent;
      bin.tool += tool;
      bin.failed += failed;
      bin.compactions += x === left ? compactions : 0;
      bin.context = context || bin.context;
    }
  });
  return bins;
}
