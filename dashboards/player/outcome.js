// The outcome of a verdict: its sign and its look, the same as on the terminal and on every page.

import { make, write } from "#player/dom.js";
import { named } from "#player/words.js";

/** @import { Outcome } from "#player/types.d.ts" */

/** @type {Record<Outcome, { sign: string, look: string }>} */
const LOOKS = {
  "as predicted": { sign: "✓", look: "good" },
  "differs, every byte explained": { sign: "≠", look: "differs" },
  "unexplained": { sign: "✗", look: "bad" },
};

export const OUTCOMES = Object.keys(LOOKS);

/** @param {Outcome | null} outcome @returns {string} its class in the style sheets */
export function lookOf(outcome) {
  return outcome === null ? "unknown" : LOOKS[outcome].look;
}

/** Set a sign to an outcome; empty if not checked.
 *  @param {HTMLElement} mark @param {Outcome | null} outcome */
export function fillMark(mark, outcome) {
  if (outcome !== null) {
    write(mark, LOOKS[outcome].sign);
    mark.classList.add(LOOKS[outcome].look);
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", named(outcome));
    mark.title = named(outcome);
  }
}

/** @param {Outcome | null} outcome */
export function markOf(outcome) {
  const mark = make("span", "mark");
  fillMark(mark, outcome);
  return mark;
}
