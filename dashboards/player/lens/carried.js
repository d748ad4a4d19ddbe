// The contents of packets: their shards, and for partial sums, the ranks in them. Derived from the messages
// and frames of a document. Pure.

import { NUMBERS_PER_PACKET } from "#player/document.js";
import { edgesOf } from "#player/draw/ring.js";
import { say } from "#player/words.js";

/** @import { Edge } from "#player/draw/ring.js" */
/** @import { Model } from "#player/scene.d.ts" */
/** @import { Collective, Step } from "#player/types.d.ts" */

const ARRIVING = 3;
/** A sum of more ranks is described by their number. */
const MOST_NAMED = 4;

/** @typedef {Edge & {shards: number[]}} CarryingEdge a message from one rank to another, and its contents */

/** Operations with messages without a shard: they bring the shards that arrive in the frames. */
const UNNAMED = ["all-to-all", "broadcast", "reduce"];

/**
 * The messages of a step with the shards that they carry: of a ring of some ranks all that a part
 * holds, also what its receiver has; else those that arrive, as the frames have them; where no frame
 * says it, the one that was recorded.
 * @param {Step} step
 * @param {Collective | undefined} call that it belongs to
 * @param {(rank: number) => number[]} arriving shards on their way to a rank
 * @returns {CarryingEdge[]}
 */
export function carriedIn(step, call, arriving) {
  const each = step.op === "all-gather" ? (call?.shards_each ?? 1) : 1;
  const edges = edgesOf(step);
  return edges.map((edge) => {
    const alone = edges.filter(({ to }) => to === edge.to).length === 1;
    const come = edge.to >= 0 && (alone || UNNAMED.includes(step.op)) ? arriving(edge.to) : [];
    const part = Array.from({ length: edge.shard >= 0 ? each : 0 }, (_, i) => edge.shard * each + i);
    const known = each > 1 || come.length === 0 ? part : come;
    return { ...edge, shards: known, shard: known.length === 1 ? known[0] : -1 };
  });
}

/**
 * The ranks whose gradients are in each rank's copy of each shard, after the messages before a step.
 */
export class Sums {
  /**
   * @param {Model} model
   * @param {number} position of a step of a collective that adds up
   * @param {number} [end] count the messages before this step
   */
  constructor(model, position, end = position) {
    const { doc, numRanks, numShards } = model;
    this.numRanks = numRanks;
    this.numShards = numShards;
    this.low = new Int32Array(numRanks * numShards);
    this.high = new Int32Array(numRanks * numShards);
    /** @type {Map<string, string>} the earlier words for the same ranks */
    this.texts = new Map();
    this.ranks = doc.ranks;
    for (let i = 0; i < this.low.length; i += 1) {
      const rank = Math.floor(i / numShards);
      this.low[i] = rank < 32 ? 1 << rank : 0;
      this.high[i] = rank < 32 ? 0 : 1 << (rank - 32);
    }
    const now = doc.steps[position];
    for (let k = firstOf(model, position); k < end; k += 1) {
      const step = doc.steps[k];
      if (step.packets.length > 0 && isSameSum(step, now)) {
        this.add(model, k);
      }
    }
  }

  /** All messages of a step at once: they send the contents from before it.
   *  @param {Model} model @param {number} k */
  add(model, k) {
    const { packets, op } = model.doc.steps[k];
    const [low, high] = [this.low.slice(), this.high.slice()];
    for (let i = 0; i < packets.length; i += NUMBERS_PER_PACKET) {
      const [from, to] = [packets[i], packets[i + 1]];
      const shards = UNNAMED.includes(op) && to >= 0 ? arrivalsAt(model, k, to) : [packets[i + 2]];
      for (const shard of from >= 0 && to >= 0 ? shards : []) {
        this.low[to * this.numShards + shard] |= low[from * this.numShards + shard];
        this.high[to * this.numShards + shard] |= high[from * this.numShards + shard];
      }
    }
  }

  /** The ranks whose gradients are in it, in words. @param {number} rank @param {number} shard */
  text(rank, shard) {
    const at = rank * this.numShards + shard;
    const bits = [this.low[at], this.high[at]];
    const key = `${bits}`;
    let text = this.texts.get(key);
    if (text === undefined) {
      const places = [...this.ranks.keys()].filter((r) => (bits[r >> 5] >>> (r & 31)) & 1);
      text = sumText(places, this.ranks, this.numRanks);
      this.texts.set(key, text);
    }
    return text;
  }
}

/** Whether two steps add up the same gradients. @param {Step} one @param {Step} other */
function isSameSum(one, other) {
  return one.collective === other.collective ||
    (one.op === "all-to-all" && other.op === "all-to-all" && one.purpose === other.purpose &&
      one.unit === other.unit && one.unit >= 0 && one.micro_step === other.micro_step);
}

/** Where a sum begins: an all-to-all within nodes comes before the one between them.
 *  @param {Model} model @param {number} position */
function firstOf({ doc }, position) {
  const now = doc.steps[position];
  return now.op === "all-to-all" ? doc.steps.findIndex((one) => isSameSum(one, now)) : doc.collectives[now.collective].first;
}

/** Shards that a step begins to bring to a rank. @param {Model} model @param {number} position @param {number} rank */
function arrivalsAt({ changeStart, changeCell, changeAfter, numShards, numUnits, numStates }, position, rank) {
  /** @type {number[]} */
  const shards = [];
  for (let i = changeStart[position]; i < changeStart[position + 1]; i += 1) {
    const owner = Math.floor(changeCell[i] / numShards / numUnits / numStates);
    if (changeAfter[i] === ARRIVING && owner === rank) {
      shards.push(changeCell[i] % numShards);
    }
  }
  return shards;
}

/**
 * The ranks in a sum: "0+1", "5 ranks", "all".
 * @param {readonly number[]} places of ranks
 * @param {readonly number[]} ranks global
 * @param {number} numRanks
 */
export function sumText(places, ranks, numRanks) {
  if (places.length === numRanks) {
    return say("lens.carried.all");
  }
  return places.length > MOST_NAMED ? say("lens.carried.ranks", { places: places.length }) : places.map((place) => ranks[place]).join("+");
}
