// The subject of the magnifier at a step: some units, and their changing states. Pure.

import { activeStates } from "#player/draw/moment.js";
import { named, say } from "#player/words.js";

/** @import { Model } from "#player/scene.d.ts" */
/** @import { State, Step } from "#player/types.d.ts" */

/**
 * States that are shown as one: those of the optimizer, which are always held alike.
 * @typedef {object} Row
 * @property {string} label
 * @property {number[]} states positions in `states`; empty where its tiles are no states
 * @property {number[]} [units] those that it shows, where that are not all of the moment
 * @property {boolean} [isStacked] its tiles lie on each other: rows of a matrix
 * @property {boolean} [isFlight] its tiles are micro-batches, with codes of `FLIGHT`
 */

const OPTIMIZER = ["fp32 master", "momentum", "variance", "optimizer states"];
const MOST_ROWS = 3;
const ARRIVING = 3;

/** Whether a step works on parameters or gradients of units: not on a number, on activations, on nothing.
 *  @param {Step} step @param {readonly State[]} states */
export function isOfStates({ kind, op, purpose }, states) {
  const moves = kind === "collective" || kind === "transfer" || op !== "";
  return states.length > 0 && (!moves || /parameters|reduce gradients|initial state/.test(purpose));
}

/**
 * The units that a step is about; all units if it is about none.
 * @param {Model} model
 * @param {Uint8Array} cells
 * @param {number} position
 * @param {boolean} hops
 * @returns {number[]}
 */
export function unitsOf(model, cells, position, hops) {
  const { doc, beatOf } = model;
  const step = doc.steps[position];
  const { units } = doc.beats[beatOf[position]];
  if (!hops && step.kind === "compute" && step.phase === "update" && units.length > 1) {
    return [...units].sort((a, b) => a - b);
  }
  if (step.unit >= 0) {
    return [step.unit];
  }
  const all = doc.units.map((_, unit) => unit);
  if (step.kind === "mark" || step.kind === "compute") {
    return all;
  }
  const active = activeStates(step, doc.states);
  const moving = all.filter((unit) => active.some((state) => arrives(model, cells, state, unit)));
  return moving.length > 0 ? moving : units.length > 0 ? [...units].sort((a, b) => a - b) : all;
}

/** Whether a shard of a unit is on its way to some rank. @param {Model} model @param {Uint8Array} cells
 *  @param {number} state @param {number} unit */
function arrives({ numRanks, numStates, numUnits, numShards }, cells, state, unit) {
  for (let rank = 0; rank < numRanks; rank += 1) {
    const first = ((rank * numStates + state) * numUnits + unit) * numShards;
    if (cells.subarray(first, first + numShards).includes(ARRIVING)) {
      return true;
    }
  }
  return false;
}

/**
 * The rows that a step shows: the states that it works on, in their order, three at most.
 * @param {Step} step
 * @param {readonly State[]} states
 * @returns {Row[]}
 */
export function rowsOf(step, states) {
  const isUsual = step.kind === "mark" || (step.kind === "compute" && step.phase !== "forward");
  const active = activeStates(step, states);
  const onDevice = [...states.keys()].filter((s) => states[s].tier === "device" && /^(parameters|gradients)$/.test(states[s].role));
  const optimizer = [...states.keys()].filter((s) => OPTIMIZER.includes(states[s].role));
  const tier = states[optimizer[0]]?.tier;
  const inUpdate = step.phase === "update" || step.kind === "mark";
  const wanted = !isUsual
    ? active
    : [...new Set([...onDevice, ...(inUpdate ? optimizer.filter((s) => states[s].tier === tier) : [])])];
  return grouped(wanted, states).slice(0, MOST_ROWS);
}

/**
 * Of a beat that goes through the tiles of an operator a row for each: which of them is there.
 * @param {Model} model
 * @param {number} position
 * @returns {Row[]} none for any other beat, or if there are too many
 */
export function rowsOfTiles({ doc, beatOf }, position) {
  const { within, units } = doc.beats[beatOf[position]];
  const parameters = doc.states.findIndex(({ role, tier }) => role === "parameters" && tier === "device");
  if (within === "" || parameters < 0 || units.length > MOST_TILES || doc.steps[position].kind !== "compute") {
    return [];
  }
  const inOrder = [...units].sort((a, b) => a - b);
  return inOrder.map((unit) => ({ label: doc.units[unit].name.slice(within.length + 1), states: [parameters], units: [unit] }));
}

const MOST_TILES = 4;

/** @param {readonly number[]} wanted @param {readonly State[]} states @returns {Row[]} */
function grouped(wanted, states) {
  const tiers = new Set(states.map(({ tier }) => tier)).size;
  /** @type {(Row & {tier: string, isOptimizer: boolean})[]} */
  const rows = [];
  for (const s of wanted) {
    const { role, name, tier } = states[s];
    const isOptimizer = OPTIMIZER.includes(role);
    const last = rows.at(-1);
    if (isOptimizer && last?.isOptimizer && last.tier === tier) {
      last.states.push(s);
      continue;
    }
    const label = [isOptimizer ? named("optimizer") : name || named(role), tiers > 1 && named(tier)].filter(Boolean).join(say("format.comma"));
    rows.push({ label, states: [s], tier, isOptimizer });
  }
  return rows.map(({ label, states: own }) => ({ label, states: own }));
}
