// Who the reader is, and what that allows.
import { signal } from "@preact/signals";
import { ask, get, signedOut, version } from "./client.js";

/** @type {import("@preact/signals").Signal<object | null>} */
export const whoami = signal(null);

/** The version of the server, if it is no longer the one that this page came from. */
export const otherVersion = signal("");

export const may = (what) => whoami.value?.may.includes(what) ?? false;

export async function learn() {
  try {
    whoami.value = await get("/v1/whoami");
    otherVersion.value = whoami.value.version === version ? "" : whoami.value.version;
    signedOut.value = false;
  } catch (error) {
    if (error.status !== 401) throw error;
  }
}

export async function signIn(key) {
  const answer = await ask("/v1/login", { method: "POST", body: { key } });
  whoami.value = await answer.json();
  signedOut.value = false;
}

export async function signOut() {
  await ask("/v1/login", { method: "DELETE" });
  whoami.value = null;
  signedOut.value = true;
}
