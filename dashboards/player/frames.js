// The data of a moment: the cells at a step, and the bytes that each rank has sent.

import { NUMBERS_PER_WAIT } from "#player/document.js";

/** Of a step that frees something: from this part of it on it is gone. */
const FREED_FROM = 0.6;
const [ABSENT, GATHERED] = [0, 2];

/** @import { Model } from "#player/scene.d.ts" */

/** The cells of all ranks, moved from step to step by changes and their inverses. */
export class Cells {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    /** The changes of no step are applied yet. */
    this.position = -1;
    this.codes = model.initial.slice();
    /** @type {{position: number, codes: Uint8Array}} the last requested position, and its codes without freed cells */
    this.after = { position: -1, codes: new Uint8Array(0) };
  }

  /**
   * The codes of all cells once step `position` has begun. The same array each time.
   * @param {number} position
   * @returns {Uint8Array}
   */
  seek(position) {
    const { changeStart, changeCell, changeAfter, changeBefore } = this.model;
    if (position > this.position) {
      const end = changeStart[position + 1];
      for (let i = changeStart[this.position + 1]; i < end; i += 1) {
        this.codes[changeCell[i]] = changeAfter[i];
      }
    } else {
      const end = changeStart[position + 1];
      for (let i = changeStart[this.position + 1] - 1; i >= end; i -= 1) {
        this.codes[changeCell[i]] = changeBefore[i];
      }
    }
    this.position = position;
    return this.codes;
  }

  /**
   * The same without the shards that this step frees at its end: another array.
   * @param {number} position
   * @returns {Uint8Array}
   */
  freed(position) {
    if (this.after.position !== position) {
      const codes = this.seek(position).slice();
      for (const cell of freedCells(this.model, position)) {
        codes[cell] = ABSENT;
      }
      this.after = { position, codes };
    }
    return this.after.codes;
  }
}

/**
 * Whether the shards that a step frees are gone, while it plays.
 * @param {Model} model
 * @param {number} position
 * @param {number | null} tween
 */
export function isFreedAt({ doc }, position, tween) {
  return tween !== null && tween >= FREED_FROM && doc.steps[position].freed.length > 0;
}

/**
 * The cells that a step gives back when it is over: gathered ones of the units that it frees, which
 * change as the next step begins.
 * @param {Model} model
 * @param {number} position
 */
export function freedCells({ doc, changeStart, changeCell, changeBefore, numShards, numUnits }, position) {
  const freed = new Set(doc.steps[position].freed);
  /** @type {number[]} */
  const cells = [];
  for (let i = changeStart[position + 1]; freed.size > 0 && i < changeStart[position + 2]; i += 1) {
    const unit = Math.floor(changeCell[i] / numShards) % numUnits;
    if (freed.has(unit) && changeBefore[i] === GATHERED) {
      cells.push(changeCell[i]);
    }
  }
  return cells;
}

/**
 * Bytes sent by each rank: by all steps before, and by the played part of this one.
 * @param {Model} model
 * @param {number} position
 * @param {number | null} tween
 * @param {Float64Array} sent filled and returned
 * @returns {Float64Array}
 */
export function sentAt(model, position, tween, sent) {
  const { numRanks, sentBefore } = model;
  const row = position * numRanks;
  const part = tween ?? 0;
  for (let r = 0; r < numRanks; r += 1) {
    const before = sentBefore[row + r];
    sent[r] = before + part * (sentBefore[row + numRanks + r] - before);
  }
  return sent;
}

/**
 * Bytes that a rank sends in a step.
 * @param {Model} model
 * @param {number} position
 * @param {number} rank
 */
export function sentInStep({ numRanks, sentBefore }, position, rank) {
  const at = position * numRanks + rank;
  return sentBefore[at + numRanks] - sentBefore[at];
}

/**
 * How long a rank waits during a step, in ns.
 * @param {import("#player/types.d.ts").Step} step
 * @param {number} rank a position in `ranks`
 */
export function waitedIn({ waits }, rank) {
  let waited = 0;
  for (let i = 0; i < waits.length; i += NUMBERS_PER_WAIT) {
    waited += waits[i] === rank ? waits[i + 2] - waits[i + 1] : 0;
  }
  return waited;
}

/**
 * How long a rank waits during what is shown, in ns: a step, or the whole beat that it is in.
 * @param {Model} model
 * @param {number} position
 * @param {number} rank a position in `ranks`
 * @param {boolean} hops steps are shown, not beats
 */
export function waitedAt({ doc, beatOf }, position, rank, hops) {
  const { first, last } = hops ? { first: position, last: position } : doc.beats[beatOf[position]];
  return doc.steps.slice(first, last + 1).reduce((sum, step) => sum + waitedIn(step, rank), 0);
}

/**
 * The last step that a rank had come to at a moment of its own time.
 * @param {Model} model
 * @param {number} ns
 * @param {number} rank a position in `ranks`
 * @returns {number}
 */
export function stepAtTime({ doc }, ns, rank) {
  return lastAt(doc.local_ns[rank], ns);
}

/** The last of some times that is not after a moment; the first of all before. @param {readonly number[]} times
 *  @param {number} ns */
export function lastAt(times, ns) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= ns) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return Math.max(0, low - 1);
}
