// A step on the stage: its unit and bands, computing and waiting ranks, the contents of a rank. Pure.

import { waitedIn } from "#player/frames.js";

/** @import { Model } from "#player/scene.d.ts" */
/** @import { State, Step, Tier } from "#player/types.d.ts" */

/**
 * Positions of the states that a step works on.
 * @param {Step} step
 * @param {readonly State[]} states
 * @returns {number[]}
 */
export function activeStates(step, states) {
  if (step.kind === "mark") {
    return [];
  }
  const all = states.map((_, i) => i);
  if (step.kind === "copy") {
    const role = roleOfCopy(step);
    return all.filter(
      (i) => role(states[i].role) && (states[i].tier === step.origin || states[i].tier === step.target),
    );
  }
  if (step.op === "" && step.phase === "update") {
    const onHost = states.some(({ role, tier }) => role === "gradients" && tier === "host");
    return all.filter((i) => states[i].tier === (onHost ? "host" : "device") && !states[i].role.includes("secondary"));
  }
  const isGradient =
    step.op === ""
      ? step.phase === "backward"
      : step.purpose.includes("gradient") || (!step.purpose.includes("param") && step.op.includes("reduce"));
  const part = isGradient ? "gradient" : "parameter";
  return all.filter((i) => states[i].tier === "device" && states[i].role.includes(part));
}

/** Which states a copy is of. @param {Step} step @returns {(role: string) => boolean} */
function roleOfCopy({ purpose }) {
  if (purpose.includes("states")) {
    return (role) => ["fp32 master", "momentum", "variance", "optimizer states"].includes(role);
  }
  return (role) => (purpose.includes("gradients") ? role === "gradients" : purpose.includes("parameters") && role === "parameters");
}

/** @param {Step} step @param {number} rank */
export function computes(step, rank) {
  return step.kind === "compute" && step.ranks.includes(rank);
}

/**
 * The action of a rank in a step; "" for none. A computing rank may wait as well: that is shown beside it.
 * @param {Step} step
 * @param {number} rank
 * @returns {"" | "computes" | "updates" | "waits"}
 */
export function doing(step, rank) {
  if (!computes(step, rank)) {
    return waitedIn(step, rank) > 0 ? "waits" : "";
  }
  return step.phase === "update" ? "updates" : "computes";
}

/**
 * Bytes of model states that a rank holds in a tier. Shards in flight do not count.
 * @param {Model} model
 * @param {Uint8Array} cells
 * @param {number} rank
 * @param {Tier} [tier]
 */
export function heldBytes(model, cells, rank, tier = "device") {
  let bytes = 0;
  for (let state = 0; state < model.numStates; state += 1) {
    bytes += model.doc.states[state].tier === tier ? heldOf(model, cells, rank, state) : 0;
  }
  return bytes;
}

/**
 * The same of one state.
 * @param {Model} model
 * @param {Uint8Array} cells
 * @param {number} rank
 * @param {number} state
 */
export function heldOf({ doc, numShards, numStates, numUnits }, cells, rank, state) {
  let bytes = 0;
  for (let unit = 0; unit < numUnits; unit += 1) {
    const first = ((rank * numStates + state) * numUnits + unit) * numShards;
    let count = 0;
    for (let shard = 0; shard < numShards; shard += 1) {
      const code = cells[first + shard];
      if (code !== 0 && code !== 3) {
        count += 1;
      }
    }
    const size = doc.states[state].bytes_per_parameter * doc.units[unit].padded_elements;
    bytes += (size * count) / numShards;
  }
  return bytes;
}

/**
 * Groups of cells, a unit of a state of a rank each, that differ from the last drawing; `drawn`
 * becomes `cells`.
 * @param {Uint8Array} cells
 * @param {Uint8Array} drawn
 * @param {number} numShards
 * @param {(group: number) => void} each
 */
export function eachChanged(cells, drawn, numShards, each) {
  const groups = cells.length / numShards;
  for (let group = 0; group < groups; group += 1) {
    const first = group * numShards;
    const end = first + numShards;
    for (let i = first; i < end; i += 1) {
      if (cells[i] !== drawn[i]) {
        for (let k = i; k < end; k += 1) {
          drawn[k] = cells[k];
        }
        each(group);
        break;
      }
    }
  }
}

/**
 * How far a rank's own time is, in nanoseconds: between a step and the next while it plays. A step
 * is a cut through the ranks' timelines, at another moment of each.
 * @param {Model} model
 * @param {number} rank
 * @param {number} position
 * @param {number | null} tween
 */
export function localTime({ doc, numSteps }, rank, position, tween) {
  const times = doc.local_ns[rank];
  const now = times[position];
  if (tween === null) {
    return now;
  }
  const next = position + 1 < numSteps ? times[position + 1] : now;
  return now + tween * (next - now);
}
