// Where a button leads: from beat to beat, and inside of them from step to step, as in a debugger.
// Nothing here moves anything.

import { nextBeat, previousBeat, restOf } from "#player/beats.js";
import { unitName } from "#player/breakpoints.js";

/** @import { Model, Track } from "#player/scene.d.ts" */

/** @typedef {"first" | "back" | "forward" | "last" | "nextHop" | "previousHop" | "over" | "into"
 *           | "out" | "nextPhase" | "previousPhase"} Move */

/** Moves that a breakpoint on the way cuts short: those that run, not those that jump. */
const RUNS = new Set(["over", "into", "out", "nextPhase"]);

/** @param {Track} _model @param {number} position */
export const previous = (_model, position) => Math.max(0, position - 1);

/** @param {Track} model @param {number} position */
export const next = (model, position) => Math.min(model.numSteps - 1, position + 1);

/** @returns {number} */
export const first = () => 0;

/** @param {Track} model */
export const last = (model) => model.numSteps - 1;

/**
 * Past the rest of this collective, including concurrent steps: the first step after its last hop that is not
 * part of it. Elsewhere the next step.
 * @param {Model} model
 * @param {number} position
 */
export function over(model, position) {
  const { collective } = model.doc.steps[position];
  if (collective < 0) {
    return next(model, position);
  }
  const end = Math.max(position, model.doc.collectives[collective].last);
  return search(model, end, (step) => step.collective !== collective);
}

/**
 * The next hop; the next collective in a trace without hops.
 * @param {Model} model
 * @param {number} position
 */
export function into(model, position) {
  const hops = search(model, position, (step) => step.kind === "transfer", position);
  return hops !== position || model.doc.steps.some((step) => step.kind === "transfer")
    ? hops
    : search(model, position, (step) => step.kind === "collective", position);
}

/**
 * The end of the unit: the next step that concerns another one, in no part of this collective.
 * @param {Model} model
 * @param {number} position
 */
export function out(model, position) {
  const here = model.doc.steps[position];
  const name = unitName(model, here);
  return search(
    model,
    position,
    (step) =>
      (step.unit !== here.unit || unitName(model, step) !== name) &&
      (here.collective < 0 || step.collective !== here.collective),
  );
}

/** @param {Track} model @param {number} position */
export function nextPhase({ phases, phaseOf, numSteps }, position) {
  return phases[phaseOf[position] + 1]?.first ?? numSteps - 1;
}

/**
 * The start of this phase, or of the previous one if the position is already there.
 * @param {Track} model
 * @param {number} position
 */
export function previousPhase({ phases, phaseOf }, position) {
  const begin = phases[phaseOf[position]].first;
  return position > begin ? begin : (phases[phaseOf[position] - 1]?.first ?? 0);
}

/** A tenth of the iteration's beats. @param {Track} model @param {number} tenths 0 to 10 */
export function atTenth({ beatMain }, tenths) {
  return beatMain[Math.round(((beatMain.length - 1) * tenths) / 10)];
}

/**
 * The first breakpoint after a step; the last step if there is none.
 * @param {Model} model
 * @param {number} from
 * @param {readonly number[]} breaks steps with a breakpoint, ascending
 */
export function runTo(model, from, breaks) {
  return breaks.find((step) => step > from) ?? model.numSteps - 1;
}

const MOVES = {
  first, back: previous, forward: next, last, nextHop: next, previousHop: previous, over, into, out, nextPhase, previousPhase,
};

/** Those that lead to a beat's main step, unless hops are on. */
const BY_BEAT = {
  first: (/** @type {Model} */ model) => model.beatMain[0],
  back: previousBeat,
  forward: nextBeat,
  nextPhase: (/** @type {Model} */ model, /** @type {number} */ position) => restOf(model, nextPhase(model, position)),
  /** @param {Model} model @param {number} position */
  previousPhase(model, position) {
    const begin = restOf(model, previousPhase(model, position));
    return begin < position ? begin : restOf(model, previousPhase(model, model.phases[model.phaseOf[position]].first));
  },
};

/** A picture at rest: of a step, or of its end. @typedef {{position: number, isOver: boolean}} Still */

/**
 * The next still picture, or the one before, from beat to beat: what a beat gathers or reduces is seen on its way,
 * then its result.
 * @param {"forward" | "back"} name
 * @param {Model} model
 * @param {Still} from
 * @returns {Still}
 */
export function stillAfter(name, model, { position, isOver }) {
  const beat = model.beatOf[position];
  if (name === "forward") {
    const result = position < model.beatMain[beat] || isOver ? null : model.results[beat];
    return result && position <= result.position
      ? { position: result.position, isOver: true }
      : { position: nextBeat(model, position), isOver: false };
  }
  const target = isOver ? restOf(model, position) : previousBeat(model, position);
  const before = model.beatOf[target] < beat ? model.results[model.beatOf[target]] : null;
  return before ? { position: before.position, isOver: true } : { position: target, isOver: false };
}

/**
 * Where a move leads, or the first breakpoint on the way there.
 * @param {Move} name
 * @param {Model} model
 * @param {number} position
 * @param {readonly number[]} breaks
 * @param {boolean} [hops] step inside the beats
 */
export function move(name, model, position, breaks, hops = true) {
  const moves = hops ? MOVES : { ...MOVES, ...BY_BEAT };
  const target = moves[name](model, position);
  return RUNS.has(name) ? Math.min(target, runTo(model, position, breaks)) : target;
}

/**
 * @param {Model} model
 * @param {number} position
 * @param {(step: import("#player/types.d.ts").Step) => boolean} holds
 * @param {number} [otherwise] where no step after this one holds
 */
function search(model, position, holds, otherwise = model.numSteps - 1) {
  for (let k = position + 1; k < model.numSteps; k += 1) {
    if (holds(model.doc.steps[k])) {
      return k;
    }
  }
  return otherwise;
}
