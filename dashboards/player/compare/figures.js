// Memory, traffic and time of a run at a moment, in numbers: the rows of the three panels.
// Pure.

import { PHASES } from "#player/colours.js";
import { heldOf } from "#player/draw/moment.js";
import { sentByPhase } from "#player/draw/traffic.js";
import { placeOf } from "#player/compare/model.js";
import { rolesAt } from "#player/moment.js";

/** @import { Comparison, Run } from "#player/compare/model.js" */
/** @import { ReplayDocument } from "#player/types.d.ts" */

/** @typedef {{kind: string, amount: number}} Part what of it is what: a role, a phase ... */

/**
 * A run's row in a panel.
 * @typedef {object} Row
 * @property {string} title
 * @property {readonly Part[]} parts in the order in which they are drawn
 * @property {number | null} total null if unknown
 * @property {number | null} law where the law says that it ends, or is
 * @property {readonly Part[]} [elsewhere] parts beyond the total: memory of the host and on the disk
 */

/** The program is stalled in communication; its activity was not recorded. */
export const WAITING = "waiting";
export const OTHER = "other";

/** So much longer than its longest bar is a scale, so that a law at its end is seen. */
const MARGIN = 1.02;
const DEVICE = "device";
/** @type {readonly string[]} */
export const AWAY = ["host", "disk"];
const BAR = 7;
const PROGRAM = 0;
const COMPUTE = 0;
const WAIT = 2;

/**
 * Memory of a rank by role: as recorded, else its model states. The total is for its device, followed by its
 * host and its disk.
 * @param {Run} run
 * @param {number} step
 * @param {number} rank global
 * @param {Uint8Array} cells at that step
 * @returns {Row}
 */
export function memoryNow(run, step, rank, cells) {
  const { model, aligned } = run;
  const place = placeOf(run, rank);
  const recorded = rolesAt(model, step, place);
  const { memory, states } = model.doc;
  const every = recorded
    ? recorded.map((amount, i) => ({ kind: memory?.roles[i] ?? "", tier: memory?.tiers[i] ?? DEVICE, amount }))
    : states.map(({ role, tier }, s) => ({ kind: role, tier, amount: heldOf(model, cells, place, s) }));
  const onDevice = every.filter(({ tier }) => tier === DEVICE).map(({ kind, amount }) => ({ kind, amount }));
  const elsewhere = AWAY.flatMap((tier) => {
    const own = every.filter((part) => part.tier === tier);
    return own.length > 0 ? [{ kind: tier, amount: totalOf(own) ?? 0 }] : [];
  });
  const total = totalOf(onDevice);
  return {
    title: aligned.title, parts: [...onDevice, ...elsewhere], total, law: aligned.law_bytes, elsewhere,
  };
}

/**
 * Bytes that a rank has sent before a step, by phase.
 * @param {Run} run
 * @param {number} step
 * @param {number} rank global
 * @returns {Row}
 */
export function sentSoFar(run, step, rank) {
  const { model, aligned } = run;
  const place = placeOf(run, rank);
  const sent = model.sentBefore.subarray(step * model.numRanks, (step + 1) * model.numRanks);
  const amounts = sentByPhase(model, step, Float64Array.from(sent), place, new Float64Array(PHASES.length));
  const parts = PHASES.map((kind, p) => ({ kind, amount: amounts[p] }));
  const isKnown = model.doc.traffic.total[place] !== null;
  return {
    title: aligned.title,
    parts,
    total: isKnown ? totalOf(parts) ?? 0 : null,
    law: model.doc.traffic.law_bytes,
  };
}

/**
 * Where a rank's time has gone until its own time in a step, in nanoseconds: computing by phase,
 * stalled in communication, and what was not recorded.
 * @param {Run} run
 * @param {number} step
 * @param {number} rank global
 * @returns {Row}
 */
export function timeSoFar({ model, aligned }, step, rank) {
  const { bars } = model.doc.timeline;
  const place = placeOf({ model, aligned }, rank);
  const now = model.doc.local_ns[place][step];
  const computing = new Float64Array(PHASES.length);
  let waiting = 0;
  for (let i = 0; i < bars.length; i += BAR) {
    if (bars[i] !== place || bars[i + 1] !== PROGRAM) {
      continue;
    }
    const spent = Math.max(0, Math.min(bars[i + 5], now) - Math.max(0, bars[i + 4]));
    if (bars[i + 2] === COMPUTE) {
      computing[bars[i + 3]] += spent;
    } else if (bars[i + 2] === WAIT) {
      waiting += spent;
    }
  }
  const known = computing.reduce((sum, one) => sum + one, waiting);
  const parts = [
    ...PHASES.map((kind, p) => ({ kind, amount: computing[p] })),
    { kind: WAITING, amount: waiting },
    { kind: OTHER, amount: Math.max(0, now - known) },
  ];
  return { title: aligned.title, parts, total: now, law: null };
}

/**
 * Computing time of a row, all phases together.
 * @param {Row} time
 */
export function computingOf({ parts }) {
  return parts.reduce((sum, { kind, amount }) => (kind === WAITING || kind === OTHER ? sum : sum + amount), 0);
}

/** @param {Row} row @param {string} kind */
export function amountOf({ parts }, kind) {
  return parts.find((part) => part.kind === kind)?.amount ?? 0;
}

/**
 * The maximum that each panel ever shows for a rank, so that its scale is constant.
 * @param {Comparison} comparison
 * @param {number} rank global
 */
export function scalesOf({ runs }, rank) {
  let memory = 1;
  let sent = 1;
  let time = 1;
  for (const run of runs) {
    const place = placeOf(run, rank);
    const { doc, numSteps, numRanks, sentBefore, numStates } = run.model;
    const bytes = doc.units.reduce((sum, unit) => sum + unit.padded_elements, 0);
    const states = doc.states.reduce((sum, state) => sum + state.bytes_per_parameter * bytes, 0);
    const held = mostHeld(doc, place) ?? (numStates > 0 ? states : 0);
    memory = Math.max(memory, held, run.aligned.law_bytes ?? 0);
    sent = Math.max(sent, sentBefore[numSteps * numRanks + place], doc.traffic.law_bytes ?? 0);
    time = Math.max(time, doc.local_ns[place][numSteps - 1]);
  }
  return { memory: memory * MARGIN, sent: sent * MARGIN, time };
}

/** The most that a rank has in all of its tiers together. @param {ReplayDocument} doc @param {number} place */
function mostHeld({ memory }, place) {
  const own = memory?.ranks[place];
  if (!own) {
    return null;
  }
  const totals = own.times_ns.map((_, t) => own.bytes.reduce((sum, row) => sum + row[t], 0));
  return Math.max(own.peak_bytes, ...totals);
}

/** @param {readonly {amount: number}[]} parts */
function totalOf(parts) {
  return parts.length > 0 ? parts.reduce((sum, { amount }) => sum + amount, 0) : null;
}
