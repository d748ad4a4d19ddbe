// Reads a replay document into the forms needed in every frame: typed arrays of times, cell changes
// with their inverses, and bytes sent before each step.

import { paceOfBeats, readBeats } from "#player/beats.js";
import { NUMBERS_PER_COPY, NUMBERS_PER_PACKET, TIERS, checkDocument } from "#player/document.js";
import { paceOfTimes } from "#player/pace.js";
import { readResults } from "#player/results.js";

/** @import { Model, PhaseSpan } from "#player/scene.d.ts" */
/** @import { Link, ReplayDocument, Run } from "#player/types.d.ts" */

/**
 * Check a parsed document and make its model.
 * @param {unknown} document
 * @returns {Model}
 * @throws {DocumentError} the document is not one that the player reads
 */
export function readModel(document) {
  const doc = checkDocument(document);
  const initial = Uint8Array.from(doc.cells, Number);
  const times = Float64Array.from(doc.steps, (step) => step.time_ns);
  const numPackets = Int32Array.from(
    doc.steps,
    ({ packets, copies }) => packets.length / NUMBERS_PER_PACKET + copies.length / NUMBERS_PER_COPY,
  );
  const model = {
    doc,
    numRanks: doc.ranks.length,
    numSteps: doc.steps.length,
    lastStep: doc.broken?.step ?? doc.steps.length - 1,
    numUnits: doc.units.length,
    numStates: doc.states.length,
    numShards: doc.num_shards,
    times,
    stepMs: paceOfBeats(doc),
    hopMs: paceOfTimes(times, numPackets),
    ...readBeats(doc),
    ...readPhases(doc),
    initial,
    ...readChanges(doc, initial),
    sentBefore: sumSent(doc),
    movedBefore: doc.traffic.links.map(({ link }) => sumMoved(doc, link)),
    tiers: TIERS.filter((tier) => doc.states.some((state) => state.tier === tier)),
    numPackets,
  };
  return { ...model, results: readResults(model) };
}

/** @param {ReplayDocument} doc */
function readPhases(doc) {
  /** @type {PhaseSpan[]} */
  const phases = [];
  const phaseOf = new Int32Array(doc.steps.length);
  for (const [k, step] of doc.steps.entries()) {
    const span = phases.at(-1);
    if (span?.phase === step.phase) {
      span.last = k;
    } else {
      phases.push({ phase: step.phase, first: k, last: k });
    }
    phaseOf[k] = phases.length - 1;
  }
  return { phases, phaseOf };
}

/** @param {ReplayDocument} doc @param {Uint8Array} initial */
function readChanges(doc, initial) {
  const changeStart = new Int32Array(doc.steps.length + 1);
  for (const [k, step] of doc.steps.entries()) {
    changeStart[k + 1] = changeStart[k] + step.cells.length / 2;
  }
  const total = changeStart[doc.steps.length];
  const changeCell = new Int32Array(total);
  const changeAfter = new Uint8Array(total);
  const changeBefore = new Uint8Array(total);
  const now = initial.slice();
  let entry = 0;
  for (const { cells } of doc.steps) {
    for (let i = 0; i < cells.length; i += 2) {
      const cell = cells[i];
      changeCell[entry] = cell;
      changeBefore[entry] = now[cell];
      changeAfter[entry] = cells[i + 1];
      now[cell] = cells[i + 1];
      entry += 1;
    }
  }
  return { changeStart, changeCell, changeAfter, changeBefore };
}

/** @param {ReplayDocument} doc */
function sumSent(doc) {
  const numRanks = doc.ranks.length;
  const sentBefore = new Float64Array((doc.steps.length + 1) * numRanks);
  for (const [k, { packets, sent }] of doc.steps.entries()) {
    const row = k * numRanks;
    const next = row + numRanks;
    sentBefore.copyWithin(next, row, next);
    for (let i = 0; i < packets.length; i += NUMBERS_PER_PACKET) {
      if (packets[i] >= 0) {
        sentBefore[next + packets[i]] += packets[i + 3];
      }
    }
    for (let r = 0; r < sent.length; r += 1) {
      sentBefore[next + r] += sent[r];
    }
  }
  return sentBefore;
}

/** Traffic over a link before each step. @param {ReplayDocument} doc @param {Link} link */
function sumMoved({ ranks, steps, run }, link) {
  const numRanks = ranks.length;
  const moved = new Float64Array((steps.length + 1) * numRanks);
  for (const [k, { packets, copies, origin, target }] of steps.entries()) {
    const row = k * numRanks;
    const next = row + numRanks;
    moved.copyWithin(next, row, next);
    for (let i = 0; i < packets.length; i += NUMBERS_PER_PACKET) {
      const [from, to] = [packets[i], packets[i + 1]];
      if (from >= 0 && to >= 0 && linkBetween(run, ranks[from], ranks[to]) === link) {
        moved[next + from] += packets[i + 3];
      }
    }
    for (let i = 0; i < copies.length && linkOfCopy(origin, target) === link; i += NUMBERS_PER_COPY) {
      moved[next + copies[i]] += copies[i + 1];
    }
  }
  return moved;
}

/** The link of a message. @param {Run} run @param {number} from global rank @param {number} to
 *  @returns {Link} */
export function linkBetween({ ranks_per_node: size }, from, to) {
  return Math.floor(from / size) === Math.floor(to / size) ? "within a node" : "between nodes";
}

/** The link of a copy. @param {string} origin @param {string} target @returns {Link} */
export function linkOfCopy(origin, target) {
  return origin === "disk" || target === "disk" ? "storage" : "bus";
}
