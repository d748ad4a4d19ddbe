// The result of a beat that gathers or reduces. Its last message may arrive in the next step, or, while something
// else is computed, in a later beat; a beat tells all of its collective, so its last picture is what that leaves.

import { isBeside } from "#player/beats.js";
import { activeStates } from "#player/draw/moment.js";
import { isPipeline } from "#player/lens/flight.js";
import { isOfStates } from "#player/lens/subject.js";

/** @import { Model, Result } from "#player/scene.d.ts" */

/**
 * By beat its result; null where nothing is gathered or reduced, or the trace ends before.
 * @param {Omit<Model, "results">} model
 * @returns {(Result | null)[]}
 */
export function readResults(model) {
  return model.doc.beats.map((_, beat) => (isPipeline(model) ? null : resultOf(model, beat)));
}

/** @param {Omit<Model, "results">} model @param {number} beat @returns {Result | null} */
function resultOf(model, beat) {
  const { doc, lastStep } = model;
  const { first, last, main, signs } = doc.beats[beat];
  if (!signs.some((sign) => sign === "gather" || sign === "reduce") || !isOfStates(doc.steps[main], doc.states)) {
    return null;
  }
  let [position, after] = [-1, -1];
  for (let k = first; k <= last; k += 1) {
    const { collective } = doc.steps[k];
    if (collective >= 0 && !isBeside(model, k)) {
      position = k;
      after = Math.max(after, doc.collectives[collective].last + 1);
    }
  }
  const found = { position, after };
  return position >= 0 && after <= lastStep && resultCells(model, beat, found).size > 0 ? found : null;
}

/**
 * The cells of a beat's units that change until its result is here, and their codes then.
 * @param {Omit<Model, "results">} model
 * @param {number} beat
 * @param {Result} result
 * @returns {Map<number, number>}
 */
export function resultCells({ doc, changeStart, changeCell, changeAfter, numShards, numUnits, numStates }, beat, { position, after }) {
  const { main, units } = doc.beats[beat];
  const states = new Set(activeStates(doc.steps[main], doc.states));
  const own = new Set(units);
  /** @type {Map<number, number>} */
  const cells = new Map();
  for (let i = changeStart[position + 1]; i < changeStart[after + 1]; i += 1) {
    const group = Math.floor(changeCell[i] / numShards);
    const isOwn = own.size === 0 || own.has(group % numUnits);
    if (isOwn && states.has(Math.floor(group / numUnits) % numStates)) {
      cells.set(changeCell[i], changeAfter[i]);
    }
  }
  return cells;
}
