// For admins and operators: health, keys, the audit record. Plain tables.
import { useEffect, useState } from "preact/hooks";
import { ask, get, version } from "../api/client.js";
import { may, whoami } from "../api/whoami.js";
import { Copy } from "../parts/copy.js";
import { html } from "../parts/html.js";
import { Failed, Loading, Nothing } from "../parts/states.js";
import { oneLine } from "../reading/text.js";
import { address, route } from "../router.js";

const TABS = [["/admin/health", "Health", Health], ["/admin/keys", "Keys", Keys], ["/admin/audit", "Audit", Audit]];

export default function Admin() {
  const here = TABS.find(([path]) => path === route.value.path) ?? TABS[0], [, title, View] = here;
  useEffect(() => { document.title = `${title} · Durable Sessions`; }, [title]);
  return html`<div class="toolbar"><h1>${title}</h1><nav class="switch" aria-label="Administration">${TABS.map(([path, name]) =>
    html`<a href=${address(path)} aria-current=${path === here[0] ? "page" : null}>${name}</a>`)}</nav></div><div class="found"><${View} key=${title} /></div>`;
}

function useAnswer(read, inputs = []) {
  const [found, set] = useState(null), [error, fail] = useState(null);
  const load = () => read().then((made) => { set(made); fail(null); }, fail);
  useEffect(() => { load(); }, inputs);
  return { found, error, load };
}

function Health() {
  const { found, error, load } = useAnswer(() => get("/readyz"));
  if (error) return html`<${Failed} error=${error} retry=${load} />`;
  if (!found) return html`<${Loading} />`;
  const rows = [["status", found.status], ["version", version], ["search", [found.search?.state, found.search?.events_left && `${found.search.events_left} events left`].filter(Boolean).join(", ")],
    ...Object.entries(found).filter(([name]) => !["status", "search"].includes(name)).map(([name, value]) => [name, JSON.stringify(value)])];
  return html`<table class="plain-table"><tbody>${rows.map(([name, value]) => html`<tr><th scope="row">${name}</th><td>${oneLine(String(value), 1000)}</td></tr>`)}</tbody></table>
    <p class="note">Figures for a monitoring system are at <a href=${address("/metrics")}>/metrics</a>.</p>`;
}

function Keys() {
  const [made, setMade] = useState(null), [problem, tell] = useState("");
  const { found, error, load } = useAnswer(() => get("/v1/keys", { limit: 1000 }));
  if (!may("admin")) return html`<${Nothing} title="Not allowed"><p>This needs a key with the role admin.</p><//>`;
  if (error) return html`<${Failed} error=${error} retry=${load} />`;
  if (!found) return html`<${Loading} />`;
  const create = async (event) => {
    event.preventDefault();
    const { principal, role } = event.target.elements;
    try {
      setMade(await (await ask("/v1/keys", { method: "POST", body: { principal: principal.value.trim(), role: role.value } })).json());
      tell("");
      principal.value = "";
      load();
    } catch (refused) { tell(refused.message); }
  };
  const revoke = async (key) => {
    if (!confirm(`Revoke the key of ${key.principal}? It lets nobody in from then on.`)) return;
    try { await ask(`/v1/keys/${encodeURIComponent(key.id)}`, { method: "DELETE" }); load(); } catch (refused) { tell(refused.message); }
  };
  return html`${whoami.value.keys_required ? html`<form class="inline-form" onSubmit=${create}><label>Principal <input type="text" name="principal" required maxlength="128" /></label>
      <label>Role <select name="role">${["reader", "writer", "evaluator", "admin"].map((role) => html`<option>${role}</option>`)}</select></label><button type="submit">Create a key</button></form>`
    : html`<p class="note">There are no keys: whoever reaches this server may do everything. The first is made on its machine: <code>durable-sessions keys create --role admin --principal you</code></p>`}
    ${problem && html`<p class="bad" role="alert">${problem}</p>`}
    ${made && html`<div class="decision"><h2>The secret of ${made.principal}, shown once</h2><code class="secret">${made.secret}</code><p><${Copy} text=${made.secret} /> <button type="button" class="quiet-button" onClick=${() => setMade(null)}>I have it</button></p></div>`}
    ${found.data.length > 0 && html`<div class="scroll-x" tabindex="0" role="region" aria-label="Keys"><table class="plain-table"><thead><tr><th>Principal</th><th>Role</th><th>Workspace</th><th>Kind</th><th>Created</th><th>Last used</th><th>Ends</th><td></td></tr></thead><tbody>${found.data.map((key) => html`<tr key=${key.id} class=${key.revoked_at ? "dim" : ""}>
      <td><bdi>${key.principal}</bdi></td><td>${key.role}</td><td>${key.workspace}</td><td>${key.parent ? "browser" : "key"}</td><td>${key.created_at}</td><td>${key.last_used_at ?? "–"}</td>
      <td>${key.revoked_at ? `revoked by ${key.revoked_by}` : key.expires_at ?? "never"}</td><td>${!key.revoked_at && html`<button type="button" onClick=${() => revoke(key)}>Revoke</button>`}</td></tr>`)}</tbody></table></div>`}`;
}

function Audit() {
  const [pages, setPages] = useState([]), [next, setNext] = useState(null), [error, fail] = useState(null), [loaded, setLoaded] = useState(false);
  const load = (page) => get("/v1/audit", { limit: 100, page }).then((found) => { setPages((old) => (page ? [...old, ...found.data] : found.data)); setNext(found.next_page); setLoaded(true); }, fail);
  useEffect(() => { load(); }, []);
  if (error) return html`<${Failed} error=${error} />`;
  if (!loaded) return html`<${Loading} />`;
  if (!pages.length) return html`<${Nothing} title="Nothing was recorded yet"><p>Acts of callers with keys are recorded here.</p><//>`;
  return html`<div class="scroll-x" tabindex="0" role="region" aria-label="Audit record"><table class="plain-table"><thead><tr><th>When</th><th>What</th><th>Who</th><th>About</th></tr></thead><tbody>${pages.map((act) => html`<tr><td>${act.at}</td><td>${act.type}</td>
    <td><bdi>${act.actor?.principal ?? ""}</bdi></td><td><bdi>${oneLine(JSON.stringify(act.key ?? act.asked ?? act.session ?? ""), 200)}</bdi></td></tr>`)}</tbody></table></div>
    ${next && html`<button type="button" onClick=${() => load(next)}>Older</button>`}`;
}
