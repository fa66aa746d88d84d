// Signing in: the key is sent once, and kept nowhere in the page.
import { useState } from "preact/hooks";
import { signIn } from "../api/whoami.js";
import { html } from "../parts/html.js";
import { address, go, route } from "../router.js";

const OURS = /^\/(?:$|\?|(?:sessions|search|compare|memory|approvals|admin|usage)(?:[/?]|$))/;

export function SignIn({ inDialog }) {
  const [problem, tell] = useState("");
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const field = event.target.elements.key;
    setBusy(true);
    try {
      await signIn(field.value.trim());
      field.value = "";
      const next = route.value.params.get("next");
      if (route.value.view === "login") go(address(next && OURS.test(next) ? next : "/"), { replace: true });
    } catch (error) {
      tell(error.message);
      field.select();
    }
    setBusy(false);
  };
  return html`<form class="sign-in" onSubmit=${submit}>
    ${!inDialog && html`<h1>Sign in</h1><p>This server needs a key. It is exchanged for a cookie that lasts twelve hours, and is kept nowhere in this page.</p>`}
    <label>Key <input name="key" type="password" autocomplete="current-password" required autofocus spellcheck=${false} /></label>
    <button type="submit" disabled=${busy}>Sign in</button>
    ${problem && html`<p class="bad" role="alert">${problem}</p>`}
    ${!inDialog && html`<p class="origin">An admin makes one with <code>durable-sessions keys create</code>.</p>`}</form>`;
}
