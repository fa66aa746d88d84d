// Requests to the server: all of them go through here, with the cookie of the sign-in and never with a key.
import { signal } from "@preact/signals";

export const base = document.querySelector('meta[name="ds-base"]')?.content ?? "";
export const version = document.querySelector('meta[name="ds-version"]')?.content ?? "";

/** Who is asked to sign in again; the page stays as it is behind the dialog. */
export const signedOut = signal(false);
/** When the server could not be reached, else null. */
export const offlineSince = signal(null);
/** The name under which a person acts on a server without keys: declared, not proven. */
export const declaredName = signal("");
/** How often the server has come back after it could not be reached: it may be another version by now. */
export const returns = signal(0);
/** How far the server's clock is ahead of ours, in milliseconds. */
export const clockSkew = { value: 0 };

export class ApiError extends Error {
  constructor(status, code, message, requestId) {
    super(message);
    Object.assign(this, { status, code, requestId });
  }
}

/** @returns {string} a path of the API with its parameters; those without a value are left out */
export function url(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === null || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  const text = query.toString();
  return base + path + (text ? `?${text}` : "");
}

export const sessionPath = (id, rest = "") => `/v1/sessions/${encodeURIComponent(id)}${rest}`;

/** Send a request and return the answer, or throw an `ApiError`. */
export async function ask(path, { params, method = "GET", body, headers = {}, signal: aborted, accept } = {}) {
  const given = { "X-DS-Page": "1", ...headers };
  if (accept) given.Accept = accept;
  if (body !== undefined) given["Content-Type"] = "application/json";
  if (declaredName.value && method !== "GET") given["Session-Principal"] = declaredName.value;
  const began = Date.now();
  let answer;
  try {
    answer = await fetch(url(path, params), {
      method, headers: given, signal: aborted, credentials: "same-origin", cache: "no-cache",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    offlineSince.value ??= Date.now();
    throw new ApiError(0, "offline", "The server cannot be reached.", "");
  }
  if (offlineSince.value !== null) cameBack();
  const date = Date.parse(answer.headers.get("Date") ?? "");
  // The header has whole seconds: half a second is the middle of what it may mean.
  if (date) clockSkew.value = Math.abs(date + 500 - began) < 2000 ? 0 : date + 500 - began;
  if (!answer.ok && answer.status !== 304) throw await refusal(answer);
  return answer;
}

/** The server answers again. */
export function cameBack() {
  offlineSince.value = null;
  returns.value++;
}

async function refusal(answer) {
  let told = {};
  try { told = (await answer.json()).error ?? {}; } catch { /* not JSON: the status says it */ }
  if (answer.status === 401) signedOut.value = true;
  const code = told.details?.error_code ?? told.code ?? told.type ?? String(answer.status);
  const message = told.message ?? `The server has answered ${answer.status}.`;
  return new ApiError(answer.status, code, message, answer.headers.get("request-id") ?? "");
}

export async function get(path, params, options = {}) {
  return (await ask(path, { params, ...options })).json();
}

/** Append an event, once however often it is sent. */
export function append(session, event, key = crypto.randomUUID()) {
  return ask(sessionPath(session, "/events"), { method: "POST", body: event, headers: { "Idempotency-Key": key } });
}
