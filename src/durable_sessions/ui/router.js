// Addresses: which view a path is, and how the reader goes from one to another.
import { signal } from "@preact/signals";
import { base } from "./api/client.js";

const VIEWS = [
  [/^\/$|^\/sessions$/, "sessions"], [/^\/search$/, "search"], [/^\/sessions\/([^/]+)$/, "session"],
  [/^\/login$/, "login"], [/^\/approvals$/, "approvals"], [/^\/compare$/, "compare"],
  [/^\/memory$/, "memory"], [/^\/admin\/(?:health|keys|audit)$/, "admin"], [/^\/sessions\/([^/]+)\/graph$/, "graph"],
  [/^\/sessions\/([^/]+)\/dossier$/, "dossier"], [/^\/sessions\/([^/]+)\/usage$/, "usage"],
];

function read() {
  const path = location.pathname.slice(base.length) || "/";
  for (const [pattern, view] of VIEWS) {
    const match = pattern.exec(path);
    if (match) return { view, id: match[1] === undefined ? null : decodeURIComponent(match[1]), path, params: new URLSearchParams(location.search) };
  }
  return { view: "missing", id: null, path, params: new URLSearchParams(location.search) };
}

export const route = signal(read());

/** @returns {string} an address of the page */
export function address(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "" && one !== false) query.append(name, String(one));
    }
  }
  const text = query.toString();
  return base + path + (text ? `?${text}` : "");
}

export const sessionAddress = (id, params = {}, rest = "") => address(`/sessions/${encodeURIComponent(id)}${rest}`, params);

/** Go to an address; `replace` for a move within a view, which is no step back. */
export function go(url, { replace = false, state = null } = {}) {
  if (replace) history.replaceState(state ?? history.state, "", url);
  else history.pushState(state, "", url);
  route.value = read();
}

/** Change the address only: the view has done it already. */
export function note(url, state) {
  history.replaceState(state ?? history.state, "", url);
}

/** A step for Back, in a view that is there already. */
export function push(url, state) {
  history.pushState(state, "", url);
}

export function listen() {
  addEventListener("popstate", () => { route.value = read(); });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    const link = event.target.closest?.("a[href]");
    if (!link || link.target || link.origin !== location.origin || link.hasAttribute("download")) return;
    const path = link.pathname.slice(base.length) || "/";
    if (!link.pathname.startsWith(base) || !VIEWS.some(([pattern]) => pattern.test(path))) return;
    event.preventDefault();
    go(link.pathname + link.search + link.hash);
  });
}
