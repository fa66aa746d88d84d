// The page: its frame, and the view of the address.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { get, offlineSince, returns, signedOut, version } from "./api/client.js";
import { learn, otherVersion, signOut, whoami } from "./api/whoami.js";
import { Dialog } from "./parts/dialog.js";
import { html } from "./parts/html.js";
import { SHEET, useKeys } from "./parts/keys.js";
import { Palette } from "./parts/palette.js";
import { Failed, Loading, Nothing } from "./parts/states.js";
import { applyLooks, setShortcuts, shortcuts, toggleDensity, toggleTheme } from "./parts/theme.js";
import { inUtc, zoneName } from "./parts/time.js";
import { oneLine } from "./reading/text.js";
import { address, go, listen, route, sessionAddress } from "./router.js";
import { SignIn } from "./views/login.js";
import { NAVIGATION } from "./views/navigation.js";

const views = {
  sessions: () => import("./views/sessions.js"), search: () => import("./views/search.js"),
  session: () => import("./views/session.js"), approvals: () => import("./views/approvals.js"),
  compare: () => import("./views/compare.js"), memory: () => import("./views/memory.js"), admin: () => import("./views/admin.js"),
  graph: () => import("./views/graph.js"), dossier: () => import("./views/dossier.js"), usage: () => import("./views/usage.js"),
};
const failure = signal(null);

/** What the palette finds behind its own names: sessions, and the search for what was typed. */
async function found(text) {
  const page = await get("/v1/sessions", { q: text, limit: 8, sort: "activity" });
  const sessions = page.data.map((one) => ({ name: oneLine(one.title || one.id, 120), note: one.title ? one.id : "", act: () => go(sessionAddress(one.id)) }));
  return text ? [...sessions.slice(0, 7), { name: `Search all sessions for ${text}`, act: () => go(address("/search", { q: text })) }] : sessions;
}

function App() {
  const { view } = route.value;
  const [sheet, showSheet] = useState(false), [palette, showPalette] = useState(false);
  useKeys({ "?": () => showSheet(true), "Ctrl+k": () => whoami.value && showPalette(true), z: () => { inUtc.value = !inUtc.value; }, d: toggleDensity });
  useEffect(() => { learn().catch((error) => { if (!whoami.value) failure.value = error; }); }, [returns.value]);
  const wantsKey = signedOut.value && !whoami.value;
  return html`<a class="skip" href="#main">To the content</a>
    <${Bar} showSheet=${() => showSheet(true)} showPalette=${() => showPalette(true)} />
    ${offlineSince.value !== null && html`<p class="banner" role="status">The server cannot be reached since ${new Date(offlineSince.value).toLocaleTimeString()}. What is here stays readable.</p>`}
    ${otherVersion.value && html`<p class="banner" role="status">The server is version ${otherVersion.value} now, and this page of ${version}. <button type="button" class="quiet-button" onClick=${() => location.reload()}>Reload</button> Your place is kept.</p>`}
    <main id="main" class=${`view-${view}`}>
      ${failure.value ? html`<${Failed} alone error=${failure.value} retry=${() => location.reload()} />`
        : wantsKey || view === "login" ? html`<${SignIn} />`
        : whoami.value ? html`<${View} key=${view} name=${view} />` : html`<${Loading} />`}
    </main>
    <div id="news" class="visually-hidden" role="status" aria-live="polite"></div>
    ${signedOut.value && whoami.value && html`<${Dialog} title="Sign in again"><${SignIn} inDialog /><//>`}
    ${palette && html`<${Palette} close=${() => showPalette(false)} find=${found}
      views=${NAVIGATION.filter((one) => !one.may || whoami.value?.may.includes(one.may)).map((one) => ({ name: one.name, note: "view", act: () => go(address(one.path)) }))} />`}
    ${sheet && html`<${Dialog} title="Keyboard" close=${() => showSheet(false)}><dl class="sheet">${SHEET.map(([key, what]) =>
      html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
      <label class="check"><input type="checkbox" checked=${shortcuts.value} onChange=${(event) => setShortcuts(event.target.checked)} /> Letters are shortcuts</label><//>`}`;
}

function Bar({ showSheet, showPalette }) {
  const who = whoami.value, here = route.value.view, bar = useRef(null);
  useEffect(() => bar.current.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }), [here, who]);
  return html`<header class="bar" ref=${bar}>
    <a class="brand" href=${address("/")}>Durable Sessions</a>
    <nav aria-label="Views">${NAVIGATION.filter((one) => !one.may || who?.may.includes(one.may)).map((one) =>
      html`<a href=${address(one.path)} aria-current=${one.views.includes(here) ? "page" : null}>${one.name}</a>`)}</nav>
    <span class="room"></span>
    ${who && html`<button type="button" class="jump" onClick=${showPalette} aria-keyshortcuts="Control+K">Find or jump <kbd aria-hidden="true">Ctrl K</kbd></button>`}
    ${who && html`<span class="who" title=${who.via === "local" ? "This server has no keys: whoever reaches it may do everything" : `Signed in with a key of ${who.workspace}`}>
      ${who.via === "local" ? html`<span class="chip">local</span>` : html`${who.workspace} · <bdi>${who.principal}</bdi> (${who.role})`}</span>`}
    ${who?.via === "browser" && html`<button type="button" class="quiet-button" onClick=${signOut}>Sign out</button>`}
    <button type="button" class="quiet-button zone" onClick=${() => { inUtc.value = !inUtc.value; }} title="Switch between local time and UTC">${zoneName()}</button>
    <button type="button" class="quiet-button" onClick=${toggleTheme} aria-label="Light or dark" title="Light or dark">◐</button>
    <button type="button" class="quiet-button" onClick=${showSheet} aria-label="Keyboard shortcuts" title="Keyboard shortcuts">?</button>
    <a class="docs" href=${address("/docs")} target="_self" title=${`Version ${version}`}>Documentation</a>
  </header>`;
}

function View({ name }) {
  const [loaded, load] = useState(null);
  const [error, fail] = useState(null);
  useEffect(() => {
    let current = true;
    views[name]?.().then((module) => current && load(() => module.default), (problem) => current && fail(problem));
    return () => { current = false; };
  }, [name]);
  if (!views[name]) return html`<${Nothing} alone title="Not there"><p>Nothing has this address. <a href=${address("/")}>All sessions</a></p><//>`;
  if (error) return html`<${Failed} alone error=${error} retry=${() => location.reload()} />`;
  return loaded ? html`<${loaded} />` : html`<${Loading} />`;
}

applyLooks();
listen();
render(html`<${App} />`, document.getElementById("app"));
