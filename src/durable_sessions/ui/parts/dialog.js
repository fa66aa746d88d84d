// A dialog over the page, which stays as it is. Closing it gives the focus back.
import { html } from "./html.js";
import { useLayoutEffect, useRef } from "preact/hooks";

export function Dialog({ title, close, children, wide }) {
  const ref = useRef(null);
  useLayoutEffect(() => { // at once, so that what is typed meanwhile is typed here
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-label=${title}
    onCancel=${(event) => { event.preventDefault(); close?.(); }}>
    <header><h2>${title}</h2>${close && html`<button type="button" class="quiet-button" onClick=${close}>Close</button>`}</header>
    ${children}</dialog>`;
}
