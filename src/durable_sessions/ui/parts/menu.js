// A menu that a button opens: arrows move inside, Escape and a click elsewhere close it and give the focus back.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";

/** @param {{label: string, items: ({name: string, act?: () => void, href?: string, target?: string} | null | false)[]}} given */
export function Menu({ label, items }) {
  const [isOpen, open] = useState(false), box = useRef(null);
  const close = () => { open(false); box.current.querySelector("button")?.focus(); };
  useEffect(() => {
    if (!isOpen) return undefined;
    box.current.querySelector("[role=menuitem]")?.focus();
    const elsewhere = (event) => { if (!box.current.contains(event.target)) open(false); };
    addEventListener("pointerdown", elsewhere);
    return () => removeEventListener("pointerdown", elsewhere);
  }, [isOpen]);
  const pressed = (event) => {
    if (!isOpen) return;
    const all = [...box.current.querySelectorAll("[role=menuitem]")], at = all.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    event.stopPropagation(); // letters are no shortcuts in a menu
    if (event.key === "Escape") { event.preventDefault(); close(); }
    if (to === undefined) return;
    event.preventDefault();
    all[(to + all.length) % all.length].focus();
  };
  return html`<div class="menu" ref=${box} onKeyDown=${pressed}>
    <button type="button" class="quiet-button" aria-haspopup="menu" aria-expanded=${isOpen} onClick=${() => open(!isOpen)}>${label}</button>
    ${isOpen && html`<div class="menu-items" role="menu" aria-label=${label}>${items.filter(Boolean).map((item) => (item.href
      ? html`<a role="menuitem" tabindex="-1" href=${item.href} target=${item.target} rel=${item.target ? "noopener" : null} onClick=${() => open(false)}>${item.name}</a>`
      : html`<button type="button" role="menuitem" tabindex="-1" onClick=${() => { close(); item.act(); }}>${item.name}</button>`))}</div>`}</div>`;
}
