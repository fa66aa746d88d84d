// The sessions of the list that was seen last, in its order: for going from one to the next; and what is marked.
import { signal } from "@preact/signals";

/** Up to two sessions that are to be compared. */
export const marked = signal([]);

export function toggleMark(id) {
  marked.value = marked.value.includes(id) ? marked.value.filter((one) => one !== id) : [...marked.value.slice(-1), id];
}

let listed = [];

export function remember(ids) {
  listed = ids;
}

/** @returns {string | undefined} the session so many places behind another one in the list */
export function neighbour(id, step) {
  const at = listed.indexOf(id);
  return at < 0 ? undefined : listed[at + step];
}
