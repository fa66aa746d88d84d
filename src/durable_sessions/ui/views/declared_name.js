// The name under which a person acts on a server without keys: declared, not proven.
import { declaredName } from "../api/client.js";
import { html } from "../parts/html.js";

export function DeclaredName() {
  return html`<label>Your name <input type="text" name="name" required maxlength="128" pattern="[A-Za-z0-9._:@\\-]+" autocomplete="username" title="Letters, digits and . _ : @ -" defaultValue=${declaredName.value} />
    <span class="origin">letters, digits and . _ : @ -; declared, not proven, since this server has no keys</span></label>`;
}
