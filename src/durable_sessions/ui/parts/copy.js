// Copying: what is copied is what is shown. Text that would do something else when it is pasted asks first.
import { escaped, isDangerous } from "../reading/hidden.js";
import { html } from "./html.js";
import { useState } from "preact/hooks";

export async function copy(text) {
  await navigator.clipboard.writeText(text);
  announce("Copied");
}

/** Say something to readers of screens, in the polite region of the page. */
export function announce(text) {
  const region = document.getElementById("news");
  if (region) region.textContent = text;
}

export function Copy({ text, label = "Copy" }) {
  const [state, set] = useState("");
  const act = async (event) => {
    event.stopPropagation();
    if (isDangerous(text) && state !== "sure") return set("sure");
    try { await copy(text); set("done"); } catch { set("failed"); }
    setTimeout(() => set(""), 1500);
  };
  const said = { sure: "Copy hidden characters, too?", done: "Copied", failed: "Not allowed" }[state] ?? label;
  return html`<button type="button" class="quiet-button" onClick=${act}>${said}</button>
    ${state === "sure" && html`<code class="escaped">${escaped(text).slice(0, 500)}</code>`}`;
}
