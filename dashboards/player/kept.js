// The reader's stored progress, in this browser alone, one entry for each lesson or puzzle. A page without
// storage works as well: it forgets on leaving.

/**
 * Entries under one key of the browser's storage.
 * @template T
 * @typedef {object} Kept
 * @property {(text: string | null) => Record<string, T>} parse the stored text; unknown parts are omitted
 * @property {() => Record<string, T>} load
 * @property {(id: string, entry: T) => void} save
 * @property {() => void} forget
 */

/**
 * @template T
 * @param {string} key
 * @param {(plain: Record<string, unknown>) => T} read an entry from its stored form
 * @returns {Kept<T>}
 */
export function keptUnder(key, read) {
  /** @param {string | null} text */
  const parse = (text) => {
    /** @type {Record<string, T>} */
    const found = {};
    for (const [id, one] of Object.entries(parsed(text))) {
      if (isObject(one)) {
        found[id] = read(one);
      }
    }
    return found;
  };
  const load = () => parse(attempt(() => localStorage.getItem(key)) ?? null);
  return {
    parse,
    load,
    save: (id, entry) => attempt(() => localStorage.setItem(key, JSON.stringify({ ...load(), [id]: entry }))),
    forget: () => attempt(() => localStorage.removeItem(key)),
  };
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What was stored, as an object. @param {string | null} text @returns {Record<string, unknown>} */
export function parsed(text) {
  try {
    /** @type {unknown} */
    const plain = JSON.parse(text ?? "{}");
    return isObject(plain) ? plain : {};
  } catch {
    return {};
  }
}

/**
 * Without storage nothing is lost but what would have been remembered.
 * @template R
 * @param {() => R} act
 * @returns {R | undefined}
 */
export function attempt(act) {
  try {
    return act();
  } catch {
    return undefined;
  }
}
