// The text for an object under the pointer: a title, and lines of known facts. Pure.

import { formatBytes, formatExact, formatPsi, formatTime, joinDots } from "#player/format.js";
import { sentInStep, waitedIn } from "#player/frames.js";
import { letterOf } from "#player/lens/letters.js";
import { named, say } from "#player/words.js";

/** @import { Model } from "#player/scene.d.ts" */
/** @import { Step } from "#player/types.d.ts" */

/**
 * @typedef {object} Named
 * @property {string} title
 * @property {[term: string, value: string][]} rows those that say nothing are left out
 */

/** By `CellCode`. */
const HELD = [
  say("naming.names.not_here"),
  say("naming.names.kept_from_iteration_to_iteration"),
  say("naming.names.gathered_given_back_after_use"),
  say("naming.names.on_its_way_to_this_rank"),
  say("naming.names.this_rank_s_own_gradient_not"),
  say("naming.names.a_sum_of_some_ranks_gradients"),
  say("naming.names.the_sum_of_all_ranks_gradients"),
  say("naming.names.kept_a_value_of_before"),
];

/** @param {string} title @param {[string, string | false | undefined][]} rows @returns {Named} */
function thing(title, rows) {
  const known = rows.filter(([, value]) => value);
  return { title, rows: /** @type {[string, string][]} */ (known) };
}

/** A thing in one line, for screen readers. @param {Named} thing */
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
  return thing(say("naming.names.shard_on_rank", { name, shard: letterOf(shard), rank: doc.ranks[rank] }), [
    [say("naming.names.state"), tier === "device" ? label : say("naming.names.on_the", { label, tier: named(tier) })],
    [say("naming.names.is"), HELD[cells[first + shard]]],
    [say("naming.names.bytes"), say("naming.names.elements", { share: formatBytes(share * size), share_2: formatExact(share) })],
    [say("naming.names.unit"), say("naming.names.in_shards", { bytes: formatBytes(elements * size), num: numShards })],
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
  const whose = units.length === 1 ? doc.units[units[0]].name : say("naming.names.units", { units: units.length });
  return thing(say("naming.names.shard_on_rank_2", { whose, shard: letterOf(shard), rank: doc.ranks[rank] }), [
    [say("naming.names.states"), label],
    [say("naming.names.is"), isAll ? HELD[code] : say("naming.names.not_of_all_of_them", { held: HELD[code] })],
  ]);
}

/**
 * A packet from a rank to another in a step.
 * @param {Model} model
 * @param {number} position
 * @param {{from: number, to: number, shard: number, bytes: number, start_ns: number, end_ns: number}} edge
 */
export function namePacket({ doc }, position, { from, to, shard, bytes, start_ns: start, end_ns: end }) {
  const step = doc.steps[position];
  /** @param {number} rank */
  const who = (rank) => (rank < 0 ? say("naming.names.a_rank_that_is_not_in") : say("shared.rank", { rank: doc.ranks[rank] }));
  const what = shard < 0 ? step.unit_name : joinDots([step.unit_name, say("naming.names.shard", { shard: letterOf(shard) })]);
  return thing(`${who(from)} → ${who(to)}`, [
    [say("naming.names.carries"), what],
    [say("naming.names.op"), opOf(step)],
    [say("naming.names.bytes"), bytes < 1000 ? formatBytes(bytes) : `${formatBytes(bytes)}, ${formatExact(bytes)} B`],
    [say("naming.names.took"), end > start ? formatTime(end - start, doc.run.is_predicted) : ""],
    [say("naming.names.asked_for"), sourceOf(doc, step)],
  ]);
}

/**
 * A rank, and the number of ranks that it represents.
 * @param {Model["doc"]} doc
 * @param {number} rank
 */
export function nameOfRank(doc, rank) {
  const others = doc.stands_for[rank] - 1;
  return others > 0 ? say("naming.names.and_others", { rank: doc.ranks[rank], others: formatExact(others) }) : say("shared.rank", { rank: doc.ranks[rank] });
}

/**
 * The longest name of a rank that fits: its number alone does in any case.
 * @param {Model["doc"]} doc
 * @param {number} rank
 * @param {number} room
 * @param {(text: string) => number} width
 */
export function nameThatFits(doc, rank, room, width) {
  const names = [nameOfRank(doc, rank), say("shared.rank", { rank: doc.ranks[rank] })];
  return names.find((name) => width(name) <= room) ?? `${doc.ranks[rank]}`;
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
  return thing(nameOfRank(doc, rank), [
    [say("naming.names.step"), step.ranks.includes(rank) ? doc.texts[step.title] : say("naming.names.takes_no_part_in", { title: doc.texts[step.title] })],
    [say("naming.names.sends"), sent > 0 ? formatBytes(sent) : ""],
    [say("naming.names.waits"), waited > 0 ? formatTime(waited, doc.run.is_predicted) : ""],
    [say("naming.names.for"), waited > 0 ? doc.texts[step.waiting] : ""],
    [say("naming.names.asked_for"), sourceOf(doc, step)],
  ]);
}

/** @type {readonly string[]} by kind of a bar */
const BARS = [say("naming.names.computes"), say("naming.names.communicates"), say("naming.names.waits"), say("naming.names.copies")];

/**
 * A bar of the timeline.
 * @param {Model} model
 * @param {number} at where its numbers begin in `timeline.bars`
 */
export function nameBar(model, at) {
  const { doc } = model;
  const [rank, , kind, , start, end, position] = doc.timeline.bars.slice(at, at + 7);
  const title = say("naming.names.rank", { rank: doc.ranks[rank], does: BARS[kind], end: formatTime(end - start, doc.run.is_predicted) });
  const step = doc.steps[position];
  if (!step) {
    return thing(title, [[say("naming.names.from"), formatTime(start, doc.run.is_predicted)]]);
  }
  const collective = doc.collectives[step.collective];
  const sent = collective?.trace[rank] ?? null;
  return thing(title, [
    [say("naming.names.step"), doc.texts[step.title]],
    [say("naming.names.unit"), step.unit_name],
    [say("naming.names.op"), opOf(step)],
    [say("naming.names.payload"), collective ? formatBytes(collective.payload_bytes) : ""],
    [say("naming.names.sends"), sent ? formatBytes(sent) : ""],
    [say("naming.names.copies"), step.copies.length > 0 ? formatBytes(step.copies[1]) : ""],
    [say("naming.names.from"), formatTime(start, doc.run.is_predicted)],
    [say("naming.names.waits"), kind === 2 ? (doc.texts[step.waiting] ?? "") : ""],
    [say("naming.names.asked_for"), sourceOf(doc, step)],
  ]);
}

/**
 * Bytes of a role at a time, in a rank's memory.
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
  return thing(named(memory.roles[series]), [
    [say("naming.names.rank_2"), say("naming.names.on_the_2", { rank: doc.ranks[rank], tier: named(tier) })],
    [say("naming.names.bytes"), formatBytes(own.bytes[series][sample])],
    [say("naming.names.of"), say("naming.names.in_use_at", { whole: formatBytes(whole), times_n: formatTime(own.times_ns[sample], doc.run.is_predicted) })],
  ]);
}

/**
 * Bytes that a rank has sent so far.
 * @param {Model} model
 * @param {Float64Array} sent by rank
 * @param {number} rank
 */
export function nameSent({ doc }, sent, rank) {
  const { psi_bytes: psi, law, law_bytes: expected, total } = doc.traffic;
  /** @param {number} bytes */
  const amount = (bytes) => joinDots([formatBytes(Math.round(bytes)), psi > 0 && formatPsi(bytes, psi)]);
  const whole = total[rank];
  return thing(say("naming.names.rank_has_sent", { rank: doc.ranks[rank], sent: formatBytes(Math.round(sent[rank])) }), [
    [say("naming.names.in_psi"), psi > 0 && formatPsi(sent[rank], psi)],
    [say("naming.names.iteration"), whole !== null && amount(whole)],
    [say("naming.names.law"), expected !== null && `${law}: ${amount(expected)}`],
  ]);
}

/** @param {Step} step */
function opOf({ op, purpose, kind, hop }) {
  return joinDots([named(op || (kind === "mark" ? "" : kind)), named(purpose), hop >= 0 && say("shared.hop", { hop: hop + 1 })]);
}

/** @param {Model["doc"]} doc @param {Step} step */
function sourceOf(doc, { source }) {
  return doc.texts[source] ?? "";
}
