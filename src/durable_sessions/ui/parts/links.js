// What every view has: its link, the request that gives the same, and the JSON that it was made from.
import { url } from "../api/client.js";
import { copy } from "./copy.js";
import { html } from "./html.js";
import { Menu } from "./menu.js";

/** @returns {string} the command that reads a path of the API; the key is a variable, never a key */
export function curlOf(path, params) {
  return `curl -H "Authorization: Bearer $DURABLE_SESSIONS_API_KEY" '${(location.origin + url(path, params)).replaceAll("'", "%27")}'`;
}

/** @param {{path: string, params?: object}} given the request that the view was made from */
export function Links({ path, params }) {
  return html`<${Menu} label="Share" items=${[
    { name: "Copy link", act: () => copy(location.href) },
    { name: "Copy as curl", act: () => copy(curlOf(path, params)) },
    { name: "JSON", href: url(path, params), target: "_blank" },
  ]} />`;
}
