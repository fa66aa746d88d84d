// What stands where something cannot be shown: nothing yet, no match, failed, not allowed, gone, offline.
import { base } from "../api/client.js";
import { html } from "./html.js";
import { useEffect, useState } from "preact/hooks";

/** Its children after 150 ms: what is there sooner needs no word. */
export function Slow({ children }) {
  const [shown, show] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => show(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return shown ? children : null;
}

export function Loading({ rows = 8 }) {
  return html`<${Slow}><div class="skeletons" aria-hidden="true">${Array.from({ length: rows }, (_, at) =>
    html`<div class="skeleton-row" key=${at}><i class="bar"></i></div>`)}</div><//>`;
}

/** `alone`: it stands for a whole view, and is its heading. */
export function Failed({ error, retry, alone }) {
  const gone = error.status === 404 || error.status === 410;
  const title = gone ? "Not there" : error.status === 403 ? "Not allowed" : error.status === 0 ? "Offline" : "That failed";
  return html`<div class="state" role="alert"><${alone ? "h1" : "h2"}>${title}<//><p>${error.message}</p>
    <p class="origin">${[error.code, error.requestId].filter(Boolean).join(" · ")}</p>
    ${gone && html`<p><a href=${`${base}/`}>All sessions</a></p>`}
    ${retry && !gone && html`<button type="button" onClick=${retry}>Try again</button>`}</div>`;
}

export function Nothing({ title, children, alone }) {
  return html`<div class="state"><${alone ? "h1" : "h2"}>${title}<//>${children}</div>`;
}
