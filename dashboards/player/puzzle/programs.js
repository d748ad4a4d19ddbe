// A reader's programs, and the solved puzzles.

import { attempt, keptUnder, parsed } from "#player/kept.js";

/**
 * @typedef {object} Program
 * @property {string} program as last written; "" if the task is unchanged
 * @property {boolean} done it has passed once
 */

export const STORE = "zerosim-puzzles";

/** @type {import("#player/kept.js").Kept<Program>} */
const kept = keptUnder(STORE, (one) => ({
  program: typeof one.program === "string" ? one.program : "",
  done: one.done === true,
}));

export const parseKept = kept.parse;
export const loadKept = kept.load;

/** @param {string} name @param {Partial<Program>} change */
export function keep(name, change) {
  kept.save(name, { ...(kept.load()[name] ?? { program: "", done: false }), ...change });
}

/**
 * Keep the verdict on a program while its tab is open: it is still there on the way back from Replay.
 * @param {string} name
 * @param {string} program
 * @param {object} verdict
 */
export function keepVerdict(name, program, verdict) {
  const language = document.documentElement.lang;
  attempt(() => sessionStorage.setItem(STORE, JSON.stringify({ name, program, language, verdict })));
}

/**
 * The verdict on a program in this tab, in the language of the page; null if there is none.
 * @param {string} name
 * @param {string} program
 * @returns {any}
 */
export function keptVerdict(name, program) {
  const told = parsed(attempt(() => sessionStorage.getItem(STORE)) ?? null);
  const isOfThis = told.name === name && told.program === program;
  return isOfThis && told.language === document.documentElement.lang ? told.verdict : null;
}

export function forgetKept() {
  kept.forget();
  attempt(() => sessionStorage.removeItem(STORE));
}
