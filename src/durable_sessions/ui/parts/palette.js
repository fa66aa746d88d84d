// Everything by name: views, what can be done here, sessions.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { Dialog } from "./dialog.js";
import { html } from "./html.js";

const SESSIONS_MAX = 8;

/** What the view that is shown can do: {name, act}. */
export const offered = signal([]);

/**
 * @param {{close: () => void, views: {name: string, act: () => void}[],
 *   find: (text: string) => Promise<{name: string, note?: string, act: () => void}[]>}} given
 */
export function Palette({ close, views, find }) {
  const [text, type] = useState(""), [sessions, set] = useState([]), [at, move] = useState(0), list = useRef(null);
  useEffect(() => {
    const timer = setTimeout(() => find(text.trim()).then((found) => set(found.slice(0, SESSIONS_MAX)), () => set([])), 100);
    return () => clearTimeout(timer);
  }, [text]);
  const fits = (one) => text.toLowerCase().split(/\s+/).every((word) => one.name.toLowerCase().includes(word));
  const found = useMemo(() => [...offered.value.filter(fits), ...views.filter(fits), ...sessions], [text, sessions, offered.value]);
  const chosen = Math.min(at, found.length - 1);
  const act = (one) => { close(); one?.act(); };
  const pressed = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      move((chosen + step + found.length) % Math.max(1, found.length));
      requestAnimationFrame(() => list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }));
    }
    if (event.key === "Enter") { event.preventDefault(); act(found[chosen]); }
  };
  return html`<${Dialog} title="Find or jump" close=${close} wide><div class="palette">
    <input type="search" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant=${chosen >= 0 ? `palette-${chosen}` : null} aria-label="Find or jump"
      placeholder="A session, a view, or what to do" autofocus value=${text} onInput=${(event) => { type(event.target.value); move(0); }} onKeyDown=${pressed} />
    <ul id="palette-list" role="listbox" aria-label="Found" ref=${list}>${found.map((one, number) => html`<li id=${`palette-${number}`} role="option" aria-selected=${number === chosen}
      onPointerMove=${() => move(number)} onClick=${() => act(one)}><bdi>${one.name}</bdi>${one.note && html`<span class="origin">${one.note}</span>`}</li>`)}</ul>
    ${!found.length && html`<p class="note">Nothing has this name.</p>`}</div><//>`;
}
