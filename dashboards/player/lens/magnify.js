// The contents of the magnifier at a step: every shard of the active unit on every rank, with its letter, the
// packets between the ranks, and a line on each rank. A function of (model, cells, position). Pure.

import { formatBytes, formatExact, joinDots } from "#player/format.js";
import { freedCells } from "#player/frames.js";
import { Sums, carriedIn } from "#player/lens/carried.js";
import { isPipeline, magnifyFlight } from "#player/lens/flight.js";
import { lettersOf } from "#player/lens/letters.js";
import { matricesAt } from "#player/lens/matrices.js";
import { isOfStates, rowsOf, rowsOfTiles, unitsOf } from "#player/lens/subject.js";
import { wordsOf } from "#player/lens/words.js";
import { say } from "#player/words.js";

/** @import { CarryingEdge } from "#player/lens/carried.js" */
/** @import { Row } from "#player/lens/subject.js" */
/** @import { Model } from "#player/scene.d.ts" */
/** @import { CellCode, Collective, Step } from "#player/types.d.ts" */

/**
 * One shard on one rank.
 * @typedef {object} Tile
 * @property {number} shard
 * @property {number} hue that of the rank that keeps it
 * @property {CellCode} code of what most say of it, where several units are shown at once
 * @property {boolean} isAll all units that are shown have it so
 * @property {string} sum whose gradients are in it: "0+1"; "" if it is no sum, or that is not known
 * @property {string} [sign] what it shows in place of its letter
 * @property {boolean} isFreed it is given back when this step is over; without it once it is
 * @property {boolean} [isNow] of a micro-batch: it is computed in this beat
 * @property {CellCode} becomes of one in flight: its code on arrival
 */

/**
 * What is written on a packet.
 * @typedef {CarryingEdge & {text: string, letters: string}} Packet letters: without its size
 */

/**
 * @typedef {object} Magnified
 * @property {string} caption the content, and its size
 * @property {Row[]} rows
 * @property {Tile[][][]} tiles by rank, row, shard
 * @property {Packet[]} packets
 * @property {string} call a call without recorded messages: "all-gather"; else ""
 * @property {string[]} words by rank
 */

/**
 * @param {Model} model
 * @param {Uint8Array} cells
 * @param {number} position
 * @param {boolean} [hops] step by step; else an update is of all units of its beat
 * @param {boolean} [isOver] its end: nothing moves, sums are whole
 * @returns {Magnified}
 */
export function magnify(model, cells, position, hops = true, isOver = false) {
  const { doc, numRanks, numShards } = model;
  const step = doc.steps[position];
  if (!isOfStates(step, doc.states) || tellsMore(model, position)) {
    return magnifyOthers(model, position, hops);
  }
  const moment = unitsOf(model, cells, position, hops);
  const next = nextCodes(model, position);
  const makes = step.kind === "compute" && step.phase === "backward";
  const freed = new Set(freedCells(model, position));
  const inTurn = hops ? [] : rowsOfTiles(model, position);
  const rows = inTurn.length > 0 ? inTurn : rowsOf(step, doc.states);
  const sums = step.purpose === "reduce gradients" && step.packets.length > 0 ? new Sums(model, position, isOver ? endOf(model, position) : position) : null;
  /** @param {number} rank @param {Row} row @param {number} shard @returns {Tile} */
  const tileOf = (rank, row, shard) => {
    const units = row.units ?? moment;
    const { code, isAll } = together(model, cells, rank, row, units, shard);
    const isMade = makes && code === ARRIVING && doc.states[row.states[0]].role === "gradients";
    const adds = sums && code >= ARRIVING && code <= (isOver ? REDUCED : SUMMED);
    return {
      shard,
      hue: hueOf(model, cells, rank, row, units) + shard,
      code,
      isAll,
      sum: adds ? sums.text(rank, shard) : "",
      isFreed: units.length === 1 && freed.has(cellOf(model, rank, row.states[0], units[0], shard)),
      becomes: isMade ? /** @type {CellCode} */ (PARTIAL) : code === ARRIVING ? next(cellOf(model, rank, row.states[0], units.find((unit) => cells[cellOf(model, rank, row.states[0], unit, shard)] === ARRIVING) ?? units[0], shard)) : code,
    };
  };
  const tiles = Array.from({ length: numRanks }, (_, rank) =>
    rows.map((row) => Array.from({ length: numShards }, (_unused, shard) => tileOf(rank, row, shard))),
  );
  /** @param {number} rank */
  const arriving = (rank) => [...new Set(tiles[rank].flatMap((row) => row.filter(({ code }) => code === ARRIVING).map(({ shard }) => shard)))].sort((a, b) => a - b);
  const packets = isOver ? [] : carriedIn(step, doc.collectives[step.collective], arriving).map((edge) => {
    const inIt = sums && edge.from >= 0 && edge.shards.length === 1 ? sums.text(edge.from, edge.shards[0]) : "";
    const letters = lettersOf(edge.shards) + (inIt ? `(${inIt})` : "");
    return { ...edge, letters, text: joinWords(letters, formatBytes(edge.bytes)) };
  });
  const magnified = {
    caption: inTurn.length > 0 ? tilesCaption(model, position) : captionOf(model, moment, rows, step.collective),
    rows,
    tiles,
    packets,
    call: isOver ? "" : callOf(step, doc.collectives),
  };
  const now = Math.max(0, inTurn.findIndex(({ units }) => units?.includes(step.unit)));
  const told = { ...magnified, tiles: tiles.map((own) => own.slice(now)) };
  return { ...magnified, words: doc.ranks.map((_, rank) => wordsOf(model, position, rank, hops, told)) };
}

const [ABSENT, GATHERED, ARRIVING, PARTIAL, SUMMED, REDUCED] = [0, 2, 3, 4, 5, 6];

/** When the result of a step's beat is here. @param {Model} model @param {number} position */
function endOf({ beatOf, results }, position) {
  return results[beatOf[position]]?.after ?? position;
}

/** If ranks hold parts of a layer, or of the model, their computations are more informative than their
 *  states.
 *  @param {Model} model @param {number} position */
function tellsMore(model, position) {
  const { kind, phase } = model.doc.steps[position];
  if (kind === "compute" && phase !== "update") {
    return matricesAt(model, position) !== null || isPipeline(model);
  }
  return kind === "mark" && isPipeline(model);
}

/** The hue of the first shard of some units; of several, those with data on a rank.
 *  @param {Model} model @param {Uint8Array} cells @param {number} rank @param {Row} row @param {readonly number[]} units */
function hueOf(model, cells, rank, row, units) {
  const { doc, numShards } = model;
  const own = units.length === 1 ? undefined : units.find((unit) => {
    const first = cellOf(model, rank, row.states[0], unit, 0);
    return cells.subarray(first, first + numShards).some((code) => code !== ABSENT);
  });
  return doc.units[own ?? units[0]]?.hue ?? 0;
}

/** A call without recorded messages. @param {Step} step @param {readonly Collective[]} calls */
function callOf({ kind, op, packets, collective }, calls) {
  return kind === "collective" && packets.length === 0 && !calls[collective]?.num_hops ? op : "";
}

/** @param {string} letters @param {string} bytes */
function joinWords(letters, bytes) {
  return letters ? `${letters} ${bytes}` : bytes;
}

/** @param {Model} model @param {number} rank @param {number} state @param {number} unit @param {number} shard */
function cellOf({ numStates, numUnits, numShards }, rank, state, unit, shard) {
  return ((rank * numStates + state) * numUnits + unit) * numShards + shard;
}

/**
 * A cell's state after a step, from the frames; a copy if they end before.
 * @param {Model} model
 * @param {number} position
 * @returns {(cell: number) => CellCode}
 */
function nextCodes({ changeStart, changeCell, changeAfter }, position) {
  /** @type {Map<number, number>} */
  const next = new Map();
  let read = changeStart[position + 1];
  return (cell) => {
    for (; read < changeCell.length && !next.has(cell); read += 1) {
      if (!next.has(changeCell[read])) {
        next.set(changeCell[read], changeAfter[read]);
      }
    }
    return /** @type {CellCode} */ (next.get(cell) || GATHERED);
  };
}

/**
 * What a rank has of a shard of several units and states: what most of them say.
 * @param {Model} model
 * @param {Uint8Array} cells
 * @param {number} rank
 * @param {Row} row
 * @param {readonly number[]} units
 * @param {number} shard
 * @returns {Pick<Tile, "code" | "isAll">}
 */
function together(model, cells, rank, row, units, shard) {
  if (units.length === 1) {
    const code = cells[cellOf(model, rank, row.states[0], units[0], shard)];
    return { code: /** @type {CellCode} */ (code), isAll: true };
  }
  const counts = new Uint32Array(8);
  for (const unit of units) {
    counts[cells[cellOf(model, rank, row.states[0], unit, shard)]] += 1;
  }
  const moving = counts[ARRIVING] > 0;
  const code = moving ? ARRIVING : counts.indexOf(Math.max(...counts));
  const isAll = counts[code] === units.length;
  if (isAll || code !== ABSENT) {
    return { code: /** @type {CellCode} */ (code), isAll };
  }
  counts[ABSENT] = 0; // present in some units outweighs absent
  return { code: /** @type {CellCode} */ (counts.indexOf(Math.max(...counts))), isAll };
}

/**
 * @param {Model} model
 * @param {readonly number[]} units
 * @param {readonly Row[]} rows
 * @param {number} call position in `collectives`; -1
 */
function captionOf({ doc, numShards }, units, rows, call) {
  const moved = doc.collectives[call];
  const name = units.length === 1 ? doc.units[units[0]].name : units.length === doc.units.length ? say("lens.magnify.all_units", { units: units.length }) : units.map((unit) => doc.units[unit].name).join(say("lens.magnify.and"));
  const padded = units.reduce((sum, unit) => sum + doc.units[unit].padded_elements, 0);
  const states = rows.flatMap((row) => row.states);
  if (states.length !== 1) {
    return joinDots([name, say("lens.magnify.parameters_with_padding", { padded: formatExact(padded) })]);
  }
  const { label, bytes_per_parameter: each } = doc.states[states[0]];
  const ofBucket = moved && moved.unit < 0 && moved.unit_name;
  return joinDots([
    ofBucket ? say("lens.magnify.of", { unit_name: moved.unit_name, name }) : name,
    label,
    ofBucket ? formatBytes(moved.payload_bytes) : `${formatExact(padded)} × ${each} B`,
    !ofBucket && numShards > 1 && say("lens.magnify.each_shard_b", { padded: formatExact((padded * each) / numShards) }),
    moved?.bits > 0 && say("lens.magnify.on_its_way_bits_an_element", { bits: moved.bits }),
  ]);
}

/** The tiles of a beat. @param {Model} model @param {number} position */
function tilesCaption({ doc, beatOf }, position) {
  const { within, units } = doc.beats[beatOf[position]];
  const padded = units.reduce((sum, unit) => sum + doc.units[unit].padded_elements, 0);
  return joinDots([within, say("lens.magnify.parameters_in_tiles", { units: units.length }), formatExact(padded)]);
}

/**
 * A step that works on no unit: numbers that ranks agree on, activations, messages. What each rank has
 * of an all-gather follows from the messages before.
 * @param {Model} model
 * @param {number} position
 * @param {boolean} hops
 * @returns {Magnified}
 */
function magnifyOthers(model, position, hops) {
  const { doc, numRanks, numShards } = model;
  const step = doc.steps[position];
  const call = doc.collectives[step.collective];
  const isFlight = isPipeline(model);
  const carried = carriedIn(step, call, () => []);
  const isGather = !isFlight && step.op === "all-gather" && carried.length > 0 && carried.every(({ shard }) => shard >= 0);
  const packets = carried.map((edge) => {
    const what = isFlight ? String(step.micro_step + 1) : isGather ? "" : lettersOf(edge.shards);
    return { ...edge, letters: what, text: edge.bytes > 0 ? joinWords(what, formatBytes(edge.bytes)) : say("lens.magnify.not_sent") };
  });
  if (isFlight) {
    return { ...magnifyFlight(model, position, hops), packets, call: callOf(step, doc.collectives) };
  }
  const known = isGather ? numbersAt(model, position) : [];
  const tiles = Array.from({ length: numRanks }, (_, rank) =>
    !isGather
      ? []
      : [Array.from({ length: numShards }, (_unused, shard) => ({ shard, sign: String(shard), hue: shard, code: known[rank][shard], isAll: true, sum: "", isFreed: false, becomes: /** @type {CellCode} */ (GATHERED) }))],
  );
  const magnified = {
    caption: joinDots([step.unit_name, step.purpose, call && formatBytes(call.payload_bytes)]),
    rows: isGather ? [{ label: step.purpose, states: [] }] : [],
    tiles,
    ...(isGather ? null : matricesAt(model, position)),
    packets,
    call: callOf(step, doc.collectives),
  };
  const words = doc.ranks.map((_, rank) => (isGather ? numberWords(carried, rank) : wordsOf(model, position, rank, hops, magnified)));
  return { ...magnified, words };
}

/** Whose number comes to a rank that has its own.
 *  @param {readonly {to: number, shard: number}[]} edges @param {number} rank */
function numberWords(edges, rank) {
  const come = edges.find(({ to }) => to === rank);
  return come ? say("lens.magnify.number_of", { other: come.shard }) : "";
}

/**
 * Which ranks' numbers each rank has at a hop of an all-gather.
 * @param {Model} model
 * @param {number} position
 * @returns {CellCode[][]} by rank and shard
 */
function numbersAt({ doc, numShards }, position) {
  const { collective } = doc.steps[position];
  /** @type {CellCode[][]} */
  const known = doc.ranks.map((rank) => Array.from({ length: numShards }, (_, shard) => (shard === rank ? 1 : 0)));
  for (let k = doc.collectives[collective].first; k <= position; k += 1) {
    for (const { to, shard } of doc.steps[k].collective === collective ? carriedIn(doc.steps[k], undefined, () => []) : []) {
      if (to >= 0) {
        known[to][shard] = k < position ? 2 : 3;
      }
    }
  }
  return known;
}
