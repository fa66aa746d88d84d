// What a newcomer sees: there is no session yet, and this is how the first one comes.
import { base } from "../api/client.js";
import { whoami } from "../api/whoami.js";
import { Copy } from "../parts/copy.js";
import { html } from "../parts/html.js";
import { address } from "../router.js";

const USUAL = "127.0.0.1:4437"; // where the commands look by themselves

/** The ways to a first session; the commands are those of this very server. */
function ways() {
  const server = location.origin + base, to = location.host + base === USUAL ? "" : ` --url ${server}`;
  const key = whoami.value?.keys_required ? ` -H "Authorization: Bearer $DURABLE_SESSIONS_API_KEY"` : "";
  return [
    ["Bring in what your agents did already", html`Reads what Claude Code has left on this machine, and changes nothing there. So do <code>codex</code>, <code>opencode</code>, <code>gemini</code>, <code>openhands</code> and others.`,
      `ds import claude-code${to}`],
    ["Write an event from anywhere", "The first event makes the session. When this returns, it is on disk.",
      `curl${key} ${server}/v1/sessions/first/events -d '{"type":"user.message","content":"Hello."}'`],
    ["Let agents write while they work", "Prints the hooks for Claude Code; other harnesses have adapters, or plain HTTP.", `ds capture claude-code${to}`],
  ];
}

export function Beginning() {
  return html`<section class="beginning"><h2>No sessions yet</h2>
    <p class="lead">A session is the log of one agent run: every message, tool call, result and error. The first one appears here by itself.</p>
    <ol>${ways().map(([title, about, command]) => html`<li><h3>${title}</h3><p>${about}</p>
      <div class="command"><code>${command}</code><${Copy} text=${command} /></div></li>`)}</ol>
    <p class="note"><code>ds</code> is in <code>.venv/bin</code> of the clone: <code>export PATH="$PWD/.venv/bin:$PATH"</code>${whoami.value?.keys_required && html`; your key goes into <code>DURABLE_SESSIONS_API_KEY</code>`}. ${" "}<a href=${address("/docs/tutorial")} target="_self">Ten minutes from here to a resumed agent</a></p></section>`;
}
