// A tour: ten to twelve stops, each a still picture with a few sentences. The next stop, and the text of
// each.

import { say } from "#player/words.js";

/** @import { Model } from "#player/scene.d.ts" */

/** Not on a tour. */
export const NO_STOP = -1;

/** The arrow keys on a tour: the target of each. @type {Readonly<Record<string, (stop: number, count: number)
 *  => number>>} */
export const TOUR_MOVES = {
  first: () => 0,
  back: (stop) => Math.max(0, stop - 1),
  forward: (stop, count) => Math.min(count - 1, stop + 1),
  last: (_, count) => count - 1,
};

/** Steps at which a tour stops, by stop. @param {Model} model */
export function tourSteps({ doc }) {
  return doc.tour.map(({ step }) => step);
}

/**
 * The progress of a step at a stop: freed shards are gone at the end of their step, so that is shown.
 * @param {Model} model
 * @param {number} stop or `NO_STOP`
 * @param {number | null} tween that of the clock
 */
export function playedAt({ doc }, stop, tween) {
  return doc.tour[stop]?.about === "free" ? 1 : tween;
}

/** "stop 3 of 12" @param {Model} model @param {number} stop */
export function nameOfStop({ doc }, stop) {
  return say("tour.stop_of", { stop: stop + 1, tour: doc.tour.length });
}

/** The text of a stop. @param {Model} model @param {number} stop */
export function narrateStop(model, stop) {
  const { title, text } = model.doc.tour[stop];
  const name = nameOfStop(model, stop);
  return `${name[0].toUpperCase()}${name.slice(1)}: ${title}. ${text}`;
}
