// What a reader has written, and which puzzles are solved.

import { keptUnder } from "#player/kept.js";

/**
 * @typedef {object} Program
 * @property {string} program as it was last written; "" where the task stands as it is given
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
export const forgetKept = kept.forget;

/** @param {string} name @param {Partial<Program>} change */
export function keep(name, change) {
  kept.save(name, { ...(kept.load()[name] ?? { program: "", done: false }), ...change });
}
