// The family of a session: each a line in the order of positions, forks leave their source where they began. Beside it
// the same as a list, and what led to what for the chosen event.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, sessionPath } from "../api/client.js";
import { html } from "../parts/html.js";
import { Links } from "../parts/links.js";
import { exact } from "../parts/number.js";
import { Failed, Loading } from "../parts/states.js";
import { oneLine, plural } from "../reading/text.js";
import { address, go, route, sessionAddress } from "../router.js";

const ROW = 44, LEFT = 20, WIDE = 960, EVENTS_MAX = 600, CLOSEST = 20;
const positionOf = (offset) => Number(/_(\d+)$/.exec(offset ?? "")?.[1] ?? 0);
const eventOf = (id) => { const [session, ...rest] = id.slice("event:".length).split("/"); return { session, event: rest.join("/") }; };

async function family(id) {
  const graph = await get(sessionPath(id, "/graph"), { family: true });
  const ids = graph.nodes.filter((node) => node.kind === "session").map((node) => node.id.slice("session:".length));
  const infos = await Promise.all(ids.slice(0, 50).map((one) => get(sessionPath(one)).catch(() => null)));
  return { graph, lines: infos.filter(Boolean), isAll: ids.length <= 50 };
}

export default function Graph() {
  const { id, params } = route.value, chosen = params.get("node");
  const [found, set] = useState(null), [error, fail] = useState(null);
  useEffect(() => {
    document.title = `Graph of ${id} · Durable Sessions`;
    family(id).then(set, fail);
  }, [id]);
  if (error) return html`<${Failed} alone error=${error} />`;
  if (!found) return html`<${Loading} />`;
  const { graph, lines, isAll } = found;
  const rows = new Map(lines.map((one, at) => [one.id, at]));
  const events = graph.nodes.filter((node) => node.kind === "event" && rows.has(eventOf(node.id).session));
  const label = (key) => oneLine(graph.nodes.find((node) => node.id === key)?.label ?? key, 120);
  return html`<div class="toolbar"><h1>Graph</h1><a href=${sessionAddress(id)}><bdi>${id}</bdi></a><span class="count">${exact(lines.length)} ${plural(lines.length, "session")}, ${exact(events.length)} ${plural(events.length, "event")}</span><span class="room"></span><${Links} path=${sessionPath(id, "/graph")} params=${{ family: true }} /></div>
    <div class="found">${(graph.truncated || !isAll || events.length > EVENTS_MAX) && html`<p class="banner">There is more than is drawn here.</p>`}
    <${Family} lines=${lines} events=${events} chosen=${chosen} id=${id} />
    ${chosen && html`<${Refs} key=${chosen} chosen=${chosen} label=${label(chosen)} of=${id} />`}
    <section class="group"><h2>Sessions</h2><ul>${lines.map((one) => html`<li class="item"><a href=${sessionAddress(one.id)}><bdi>${oneLine(one.title || one.id, 120)}</bdi></a>
      <span class="origin">${exact(one.event_count)} events, ${one.lifecycle}${one.forked_from ? `, forked from ${one.forked_from.session_id} at #${exact(one.forked_from.position)}` : ""}</span>
      ${one.forked_from && html` <a href=${address("/compare", { a: one.forked_from.session_id, b: one.id })}>compare</a>`}</li>`)}</ul></section>
    <section class="group"><h2>Events</h2><ul>${events.slice(0, EVENTS_MAX).map((node) => { const { session, event } = eventOf(node.id); return html`<li class="item"><a class="pos" href=${sessionAddress(session, { event })}>#${exact(positionOf(node.offset))}</a>
      <a href=${sessionAddress(id, { node: node.id }, "/graph")}><bdi>${oneLine(node.label, 160)}</bdi></a> <span class="origin">${session === id ? "" : session}</span></li>`; })}</ul></section></div>`;
}

/** What is seen of the drawing: closer and moved by the pointer, by keys and by buttons; never beyond its edges. */
function useCamera(height) {
  const [camera, set] = useState({ x: 0, y: 0, zoom: 1 }), held = useRef(null);
  const within = ({ x, y, zoom }) => ({ zoom, x: Math.max(0, Math.min(WIDE - WIDE / zoom, x)), y: Math.max(0, Math.min(height - height / zoom, y)) });
  const move = (dx, dy) => set((old) => within({ ...old, x: old.x + dx, y: old.y + dy }));
  const closer = (factor) => set((old) => {
    const zoom = Math.max(1, Math.min(CLOSEST, old.zoom * factor)), middle = (1 / old.zoom - 1 / zoom) / 2;
    return within({ zoom, x: old.x + WIDE * middle, y: old.y + height * middle });
  });
  const pointers = {
    onPointerDown: (event) => { held.current = [event.clientX, event.clientY]; },
    onPointerMove: (event) => {
      if (!held.current || !event.buttons) return;
      const scale = WIDE / camera.zoom / event.currentTarget.getBoundingClientRect().width, [x, y] = held.current;
      move((x - event.clientX) * scale, (y - event.clientY) * scale);
      held.current = [event.clientX, event.clientY];
    },
    onWheel: (event) => { if (event.ctrlKey) { event.preventDefault(); closer(event.deltaY < 0 ? 1.25 : 0.8); } },
  };
  return { camera, move, closer, pointers, whole: () => set({ x: 0, y: 0, zoom: 1 }) };
}

/** The sessions as lines and their events as dots. Arrows walk from event to event, and from line to line. */
function Family({ lines, events, chosen, id }) {
  const rows = new Map(lines.map((one, at) => [one.id, at])), most = Math.max(1, ...lines.map((one) => one.event_count)), height = lines.length * ROW + 20;
  const { camera, move, closer, pointers, whole } = useCamera(height), { zoom } = camera;
  const x = (position) => LEFT + (position / most) * 900, y = (session) => 24 + rows.get(session) * ROW;
  const dots = events.slice(0, EVENTS_MAX).map((node) => ({ node, session: eventOf(node.id).session, position: positionOf(node.offset) }));
  const choose = (node) => go(sessionAddress(id, { node: node.id }, "/graph"), { replace: true });
  const walk = (dx, dy) => {
    const here = dots.find((one) => one.node.id === chosen) ?? { session: id, position: -1 };
    const line = lines[rows.get(here.session) + dy]?.id, on = dots.filter((one) => one.session === line && one.node.id !== chosen && (dx === 0 || (one.position - here.position) * dx > 0));
    const near = on.sort((a, b) => Math.abs(a.position - here.position) - Math.abs(b.position - here.position))[0];
    if (!near) return;
    move(x(near.position) - camera.x - WIDE / zoom / 2, y(near.session) - camera.y - height / zoom / 2);
    choose(near.node);
  };
  const keys = { ArrowRight: () => walk(1, 0), ArrowLeft: () => walk(-1, 0), ArrowDown: () => walk(0, 1), ArrowUp: () => walk(0, -1), "+": () => closer(1.5), "-": () => closer(1 / 1.5), 0: whole };
  const pressed = (event) => { if (keys[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); keys[event.key](); } };
  return html`<div class="scroll-x" tabindex="0" role="region" aria-label="The family of the session: arrows go from event to event, plus and minus zoom, 0 shows all" onKeyDown=${pressed}>
    <svg class="family" ...${pointers} viewBox=${`${camera.x} ${camera.y} ${WIDE / zoom} ${height / zoom}`} role="img" aria-label="The family of the session; the same is in the list below">
      ${lines.map((one) => html`<g key=${one.id} class=${one.id === id ? "here" : ""}>
        ${one.forked_from && rows.has(one.forked_from.session_id) && html`<path class="leaves" d=${`M${x(one.forked_from.position)} ${y(one.forked_from.session_id)} L${x(one.forked_from.position)} ${y(one.id)}`} />`}
        <line x1=${x(one.forked_from?.position ?? 0)} x2=${x(one.event_count)} y1=${y(one.id)} y2=${y(one.id)} />
        ${!["closed", "archived"].includes(one.lifecycle) && html`<circle class="end" cx=${x(one.event_count)} cy=${y(one.id)} r=${4 / zoom} />`}
        <text x=${x(one.forked_from?.position ?? 0) + 4} y=${y(one.id) - 8 / zoom} style=${{ fontSize: `${12 / zoom}px` }}>${oneLine(one.title || one.id, 60)}</text></g>`)}
      ${dots.map(({ node, session, position }) => html`<circle class=${`event ${node.id === chosen ? "chosen" : ""}`} cx=${x(position)} cy=${y(session)} r=${3 / zoom} onClick=${() => choose(node)}><title>${node.label}</title></circle>`)}</svg></div>
    <p class="zoom"><button type="button" class="quiet-button" aria-label="Closer" onClick=${() => closer(1.5)}>+</button><button type="button" class="quiet-button" aria-label="Further" onClick=${() => closer(1 / 1.5)}>−</button>
      ${zoom > 1 && html`<button type="button" class="quiet-button" onClick=${whole}>All of it</button>`}</p>`;
}

/** What led to the chosen event, and what came of it: two steps each way, the rest by going on. */
function Refs({ chosen, label, of }) {
  const [found, set] = useState(null), [error, fail] = useState(null), { session, event } = eventOf(chosen);
  useEffect(() => {
    const read = (way) => get(sessionPath(session, `/events/${encodeURIComponent(event)}/${way}`), { depth: 2 });
    Promise.all([read("why"), read("impact")]).then(([why, impact]) => set({ why, impact }), fail);
  }, []);
  if (error) return html`<${Failed} error=${error} />`;
  const side = (title, part) => html`<section><h3>${title}</h3>${part.nodes.length > 1 ? html`<ul>${part.nodes.slice(1, 100).map((node) => html`<li class="item"><span class="kind">${relOf(part, node.id)}</span>
      ${node.kind === "event" ? html`<a href=${sessionAddress(of, { node: node.id }, "/graph")}><bdi>${oneLine(node.label, 160)}</bdi></a>` : html`<bdi>${oneLine(node.label, 160)}</bdi>`}</li>`)}</ul>` : html`<p class="note">Nothing.</p>`}
    ${part.truncated && html`<p class="note">There is more than is shown here.</p>`}</section>`;
  return html`<section class="group chosen-event"><h2><bdi>${label}</bdi> <a class="origin" href=${sessionAddress(session, { event })}>read it</a></h2>
    ${found && html`<div class="two-columns">${side("What led to it", found.why)}${side("What came of it", found.impact)}</div>`}</section>`;
}

const relOf = (part, id) => (part.edges.find((edge) => edge.from === id || edge.to === id)?.rel ?? "").replace(/_/g, " ");
