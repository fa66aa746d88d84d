// The sessions of the list that was seen last, in its order: for going from one to the next.

let listed = [];

export function remember(ids) {
  listed = ids;
}

/** @returns {string | undefined} the session so many places behind another one in the list */
export function neighbour(id, step) {
  const at = listed.indexOf(id);
  return at < 0 ? undefined : listed[at + step];
}
