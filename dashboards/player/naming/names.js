// What is said of a thing that is pointed at: a title, and lines of what is known of it. Pure.

import { formatBytes, formatExact, formatPsi, formatTime, joinDots } from "#player/format.js";
import { sentInStep, waitedIn } from "#player/frames.js";
import { letterOf } from "#player/lens/letters.js";

/** @import { Model } from "#player/scene.d.ts" */
/** @import { Step } from "#player/types.d.ts" */

/**
 * @typedef {object} Named
 * @property {string} title
 * @property {[term: string, value: string][]} rows those that say nothing are left out
 */

/** By `CellCode`. */
const HELD = [
  "not here",
  "kept from iteration to iteration",
  "gathered, given back after use",
  "on its way to this rank",
  "this rank's own gradient, not yet reduced",
  "a sum of some ranks' gradients",
  "the sum of all ranks' gradients",
  "kept, a value of before",
];

/** @param {string} title @param {[string, string | false | undefined][]} rows @returns {Named} */
function named(title, rows) {
  const known = rows.filter(([, value]) => value);
  return { title, rows: /** @type {[string, string][]} */ (known) };
}

/** A thing in one line: what a screen reader hears. @param {Named} thing */
export function spokenName({ title, rows }) {
  return [title, ...rows.map(([term, value]) => `${term} ${value}`)].join("; ");
}

/**
 * A shard of a unit's state on a rank.
 * @param {Model} model
 * @param {Uint8Array} cells
 * @param {{rank: number, state: number, unit: number, shard: number}} place
 */
export function nameCell({ doc, numStates, numUnits, numShards }, cells, { rank, state, unit, shard }) {
  const { name, padded_elements: elements } = doc.units[unit];
  const { label, bytes_per_parameter: size, tier } = doc.states[state];
  const first = ((rank * numStates + state) * numUnits + unit) * numShards;
  const share = elements / numShards;
  return named(`${name}, shard ${letterOf(shard)} on rank ${doc.ranks[rank]}`, [
    ["state", tier === "device" ? label : `${label}, on the ${tier}`],
    ["is", HELD[cells[first + shard]]],
    ["bytes", `${formatBytes(share * size)}, ${formatExact(share)} elements`],
    ["unit", `${formatBytes(elements * size)} in ${numShards} ${numShards === 1 ? "shard" : "shards"}`],
  ]);
}

/**
 * A shard of several units, or of several states of them, on a rank.
 * @param {Model} model
 * @param {number} rank
 * @param {string} label of the states
 * @param {readonly number[]} units
 * @param {{shard: number, code: import("#player/types.d.ts").CellCode, isAll: boolean}} tile
 */
export function nameTile({ doc }, rank, label, units, { shard, code, isAll }) {
  const whose = units.length === 1 ? doc.units[units[0]].name : `${units.length} units`;
  return named(`${whose}, shard ${letterOf(shard)} on rank ${doc.ranks[rank]}`, [
    ["states", label],
    ["is", isAll ? HELD[code] : `${HELD[code]}; not of all of them`],
  ]);
}

/**
 * What goes from a rank to another in a step.
 * @param {Model} model
 * @param {number} position
 * @param {{from: number, to: number, shard: number, bytes: number, start_ns: number, end_ns: number}} edge
 */
export function namePacket({ doc }, position, { from, to, shard, bytes, start_ns: start, end_ns: end }) {
  const step = doc.steps[position];
  /** @param {number} rank */
  const who = (rank) => (rank < 0 ? "a rank that is not in the trace" : `rank ${doc.ranks[rank]}`);
  const what = shard < 0 ? step.unit_name : joinDots([step.unit_name, `shard ${letterOf(shard)}`]);
  return named(`${who(from)} → ${who(to)}`, [
    ["carries", what],
    ["op", opOf(step)],
    ["bytes", bytes < 1000 ? formatBytes(bytes) : `${formatBytes(bytes)}, ${formatExact(bytes)} B`],
    ["took", end > start ? formatTime(end - start, doc.run.is_predicted) : ""],
    ["asked for", sourceOf(doc, step)],
  ]);
}

/**
 * A rank, and how many did what it did where one stands for them.
 * @param {Model["doc"]} doc
 * @param {number} rank
 */
export function nameOfRank(doc, rank) {
  const others = doc.stands_for[rank] - 1;
  return `rank ${doc.ranks[rank]}${others > 0 ? ` and ${formatExact(others)} like it` : ""}`;
}

/**
 * A rank, in a step.
 * @param {Model} model
 * @param {number} position
 * @param {number} rank
 */
export function nameRank(model, position, rank) {
  const { doc } = model;
  const step = doc.steps[position];
  const sent = sentInStep(model, position, rank);
  const waited = waitedIn(step, rank);
  return named(nameOfRank(doc, rank), [
    ["step", step.ranks.includes(rank) ? doc.texts[step.title] : `takes no part in: ${doc.texts[step.title]}`],
    ["sends", sent > 0 ? formatBytes(sent) : ""],
    ["waits", waited > 0 ? formatTime(waited, doc.run.is_predicted) : ""],
    ["for", waited > 0 ? doc.texts[step.waiting] : ""],
    ["asked for", sourceOf(doc, step)],
  ]);
}

/** @type {readonly string[]} by kind of a bar */
const BARS = ["computes", "communicates", "waits", "copies"];

/**
 * A bar of the timeline.
 * @param {Model} model
 * @param {number} at where its numbers begin in `timeline.bars`
 */
export function nameBar(model, at) {
  const { doc } = model;
  const [rank, , kind, , start, end, position] = doc.timeline.bars.slice(at, at + 7);
  const title = `rank ${doc.ranks[rank]} ${BARS[kind]} ${formatTime(end - start, doc.run.is_predicted)}`;
  const step = doc.steps[position];
  if (!step) {
    return named(title, [["from", formatTime(start, doc.run.is_predicted)]]);
  }
  const collective = doc.collectives[step.collective];
  const sent = collective?.trace[rank] ?? null;
  return named(title, [
    ["step", doc.texts[step.title]],
    ["unit", step.unit_name],
    ["op", opOf(step)],
    ["payload", collective ? formatBytes(collective.payload_bytes) : ""],
    ["sends", sent ? formatBytes(sent) : ""],
    ["copies", step.copies.length > 0 ? formatBytes(step.copies[1]) : ""],
    ["from", formatTime(start, doc.run.is_predicted)],
    ["waits", kind === 2 ? (doc.texts[step.waiting] ?? "") : ""],
    ["asked for", sourceOf(doc, step)],
  ]);
}

/**
 * What a role has at a time, of a rank's memory.
 * @param {Model} model
 * @param {number} rank
 * @param {number} series position in `memory.roles`
 * @param {number} sample
 */
export function nameArea({ doc }, rank, series, sample) {
  const memory = doc.memory;
  const own = memory?.ranks[rank];
  if (!memory || !own) {
    return null;
  }
  const tier = memory.tiers[series];
  const whole = own.bytes.reduce((sum, row, i) => sum + (memory.tiers[i] === tier ? row[sample] : 0), 0);
  return named(memory.roles[series], [
    ["rank", `${doc.ranks[rank]}, on the ${tier}`],
    ["bytes", formatBytes(own.bytes[series][sample])],
    ["of", `${formatBytes(whole)} in use at ${formatTime(own.times_ns[sample], doc.run.is_predicted)}`],
  ]);
}

/**
 * What a rank has sent until now.
 * @param {Model} model
 * @param {Float64Array} sent by rank
 * @param {number} rank
 */
export function nameSent({ doc }, sent, rank) {
  const { psi_bytes: psi, law, law_bytes: expected, total } = doc.traffic;
  /** @param {number} bytes */
  const say = (bytes) => joinDots([formatBytes(Math.round(bytes)), psi > 0 && formatPsi(bytes, psi)]);
  const whole = total[rank];
  return named(`rank ${doc.ranks[rank]} has sent ${formatBytes(Math.round(sent[rank]))}`, [
    ["in Ψ", psi > 0 && formatPsi(sent[rank], psi)],
    ["iteration", whole !== null && say(whole)],
    ["law", expected !== null && `${law}: ${say(expected)}`],
  ]);
}

/** @param {Step} step */
function opOf({ op, purpose, kind, hop }) {
  return joinDots([op || (kind === "mark" ? "" : kind), purpose, hop >= 0 && `hop ${hop + 1}`]);
}

/** @param {Model["doc"]} doc @param {Step} step */
function sourceOf(doc, { source }) {
  return doc.texts[source] ?? "";
}
