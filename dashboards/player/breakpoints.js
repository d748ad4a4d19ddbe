// Breakpoints: the steps to stop at, in words that fit into a URL.

import { sentInStep, waitedIn } from "#player/frames.js";
import { formatBytes } from "#player/format.js";
import { named, say } from "#player/words.js";

/** @import { Model } from "#player/scene.d.ts" */
/** @import { Step } from "#player/types.d.ts" */

/**
 * Stops at the steps that match all of its fields.
 * @typedef {object} Breakpoint
 * @property {string} [kind] a kind of step ("transfer"), or an operation ("all-gather"), which
 *   stops at its first step only
 * @property {string} [unit] a unit or bucket by its name
 * @property {number} [rank] a global rank that takes part
 * @property {number} [bytes] minimum number of bytes sent by a rank in the step
 */

export const STEP_KINDS = ["mark", "compute", "collective", "transfer", "copy", "wait"];
/** The last one is not a kind of step: it stops where a rank waits. */
const WAIT = "wait";

/**
 * The name of a step's subject.
 * @param {Model} model
 * @param {Step} step
 */
export function unitName({ doc }, step) {
  return step.unit_name || (step.unit >= 0 ? doc.units[step.unit].name : "");
}

/**
 * @param {Model} model
 * @param {Breakpoint} breakpoint
 * @param {number} position
 */
export function matches(model, breakpoint, position) {
  const { kind, unit, rank, bytes } = breakpoint;
  const step = model.doc.steps[position];
  const place = rank === undefined ? -1 : model.doc.ranks.indexOf(rank);
  if (kind === WAIT) {
    const waiting = [...model.doc.ranks.keys()].filter((one) => waitedIn(step, one) > 0);
    if (rank === undefined ? waiting.length === 0 : !waiting.includes(place)) {
      return false;
    }
  } else if (kind !== undefined && step.kind !== kind) {
    const begins = step.collective < 0 || model.doc.collectives[step.collective].first === position;
    if (step.op !== kind || (bytes === undefined && !begins)) {
      return false;
    }
  }
  if (unit !== undefined && unitName(model, step) !== unit) {
    return false;
  }
  if (rank !== undefined && kind !== WAIT && !step.ranks.includes(place)) {
    return false;
  }
  if (bytes === undefined) {
    return true;
  }
  const senders = rank === undefined ? [...model.doc.ranks.keys()] : [place];
  return senders.some((sender) => sentInStep(model, position, sender) >= bytes);
}

/**
 * The steps at which any of some breakpoints matches, ascending.
 * @param {Model} model
 * @param {readonly Breakpoint[]} breakpoints
 */
export function findBreaks(model, breakpoints) {
  /** @type {number[]} */
  const found = [];
  if (breakpoints.length > 0) {
    for (let k = 0; k < model.numSteps; k += 1) {
      if (breakpoints.some((breakpoint) => matches(model, breakpoint, k))) {
        found.push(k);
      }
    }
  }
  return found;
}

/**
 * As text: `kind:transfer,unit:blocks.2,rank:1,bytes:4096`.
 * @param {Breakpoint} breakpoint
 */
export function formatBreakpoint({ kind, unit, rank, bytes }) {
  return Object.entries({ kind, unit, rank, bytes })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}:${String(value).replace(/[%,;:]/g, encodeURIComponent)}`)
    .join(",");
}

/**
 * Read it back; null where nothing in it is understood.
 * @param {string} text
 * @returns {Breakpoint | null}
 */
export function parseBreakpoint(text) {
  /** @type {Breakpoint} */
  const breakpoint = {};
  for (const part of text.split(",")) {
    const [name, ...rest] = part.split(":");
    const value = decode(rest.join(":"));
    if (value === "") {
      continue;
    }
    if (name === "kind" || name === "unit") {
      breakpoint[name] = value;
    } else if ((name === "rank" || name === "bytes") && /^\d{1,15}$/.test(value)) {
      breakpoint[name] = Number(value);
    }
  }
  return Object.keys(breakpoint).length > 0 ? breakpoint : null;
}

/**
 * In words: `transfer of blocks.2 by rank 1 from 4.10 kB`.
 * @param {Breakpoint} breakpoint
 */
export function describeBreakpoint({ kind, unit, rank, bytes }) {
  return [
    kind === undefined ? say("breakpoints.any_step") : named(kind),
    unit === undefined ? "" : say("breakpoints.of", { unit }),
    rank === undefined ? "" : say("breakpoints.with_rank", { rank }),
    bytes === undefined ? "" : say("breakpoints.that_sends_or_more", { bytes: formatBytes(bytes) }),
  ]
    .filter(Boolean)
    .join(" ");
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}
