// What a reader has written, and which puzzles are solved: kept in this browser alone. A page
// without storage works as well: it forgets when it is left.

/**
 * @typedef {object} Kept
 * @property {string} program as it was last written; "" where the task stands as it is given
 * @property {boolean} done it has passed once
 */

export const STORE = "zerosim-puzzles";

/**
 * All that was stored; what is not understood is left out.
 * @param {string | null} text
 * @returns {Record<string, Kept>}
 */
export function parseKept(text) {
  /** @type {unknown} */
  let plain;
  try {
    plain = JSON.parse(text ?? "{}");
  } catch {
    return {};
  }
  /** @type {Record<string, Kept>} */
  const found = {};
  for (const [name, one] of Object.entries(isObject(plain) ? plain : {})) {
    if (isObject(one)) {
      found[name] = { program: typeof one.program === "string" ? one.program : "", done: one.done === true };
    }
  }
  return found;
}

/** @returns {Record<string, Kept>} */
export function loadKept() {
  try {
    return parseKept(localStorage.getItem(STORE));
  } catch {
    return {};
  }
}

/** @param {string} name @param {Partial<Kept>} change */
export function keep(name, change) {
  try {
    const all = loadKept();
    const one = { ...(all[name] ?? { program: "", done: false }), ...change };
    localStorage.setItem(STORE, JSON.stringify({ ...all, [name]: one }));
  } catch {
    // Nothing is lost but what would have been remembered.
  }
}

/**
 * Keep what was said of a program while its tab is open: who follows it to Replay comes back to it.
 * @param {string} name
 * @param {string} program
 * @param {object} verdict
 */
export function keepVerdict(name, program, verdict) {
  try {
    const language = document.documentElement.lang;
    sessionStorage.setItem(STORE, JSON.stringify({ name, program, language, verdict }));
  } catch {
    // It is checked again.
  }
}

/**
 * What was said of a program in this tab, in the language of the page; null if nothing was.
 * @param {string} name
 * @param {string} program
 * @returns {any}
 */
export function keptVerdict(name, program) {
  try {
    const kept = JSON.parse(sessionStorage.getItem(STORE) ?? "{}");
    const isOfThis = kept.name === name && kept.program === program;
    return isOfThis && kept.language === document.documentElement.lang ? kept.verdict : null;
  } catch {
    return null;
  }
}

export function forgetKept() {
  try {
    localStorage.removeItem(STORE);
    sessionStorage.removeItem(STORE);
  } catch {
    // There was nothing.
  }
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
