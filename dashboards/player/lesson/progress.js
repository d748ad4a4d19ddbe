// A reader's progress in the lessons.

import { isObject, keptUnder } from "#player/kept.js";

/** @typedef {"number" | "choice" | "order" | "click" | "mark"} Kind */

/**
 * The state of a question.
 * @typedef {object} Told
 * @property {string | string[]} given the latest answer
 * @property {number} wrong how often it was wrong
 * @property {boolean} right
 * @property {boolean} shown the reader gave up and looked
 * @property {boolean} [held] given in a room that has not been shown yet what is right
 */

/**
 * @typedef {object} Progress
 * @property {number} step the one that was looked at last, from 1
 * @property {number} furthest
 * @property {boolean} done
 * @property {Record<string, Told>} questions
 */

export const STORE = "zerosim-lessons";
/** Wrong answers after which the explanation can be had. */
export const ENOUGH = 2;

/** @returns {Progress} */
export function begin() {
  return { step: 1, furthest: 1, done: false, questions: {} };
}

/** @param {unknown} plain */
function parseQuestions(plain) {
  /** @type {Record<string, Told>} */
  const found = {};
  for (const [id, one] of Object.entries(isObject(plain) ? plain : {})) {
    if (isObject(one) && (typeof one.given === "string" || isTexts(one.given))) {
      const wrong = typeof one.wrong === "number" && one.wrong > 0 ? Math.floor(one.wrong) : 0;
      const held = one.held === true ? { held: true } : {};
      found[id] = { given: one.given, wrong, right: one.right === true, shown: one.shown === true, ...held };
    }
  }
  return found;
}

/**
 * The state of a question after one more answer.
 * @param {Told | undefined} told
 * @param {string | string[]} given
 * @param {boolean} right
 * @returns {Told}
 */
export function answered(told, given, right) {
  return {
    given,
    wrong: (told?.wrong ?? 0) + (right ? 0 : 1),
    right: right || (told?.right ?? false),
    shown: told?.shown ?? false,
  };
}

/**
 * The same after an answer without feedback so far.
 * @param {Told | undefined} told
 * @param {string | string[]} given
 * @returns {Told}
 */
export function noted(told, given) {
  return { wrong: 0, right: false, shown: false, ...told, given, held: true };
}

/** Whether the parts after a question may be seen. @param {Told | undefined} told */
export function isSettled(told) {
  return told !== undefined && (told.right || told.shown);
}

/**
 * Progress at a step.
 * @param {Progress} progress
 * @param {number} step
 * @param {number} numSteps
 * @returns {Progress}
 */
export function reached(progress, step, numSteps) {
  const furthest = Math.max(progress.furthest, step);
  return { ...progress, step, furthest, done: progress.done || step === numSteps };
}

/** @type {import("#player/kept.js").Kept<Progress>} */
const kept = keptUnder(STORE, (one) => ({
  step: count(one.step),
  furthest: count(one.furthest),
  done: one.done === true,
  questions: parseQuestions(one.questions),
}));

export const parseProgress = kept.parse;
export const loadAll = kept.load;
export const save = kept.save;
export const forgetAll = kept.forget;

/** @param {unknown} value @returns {value is string[]} */
function isTexts(value) {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}

/** @param {unknown} value */
function count(value) {
  return typeof value === "number" && value >= 1 ? Math.floor(value) : 1;
}
