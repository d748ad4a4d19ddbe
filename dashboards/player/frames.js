// The data of a moment: the cells at a step, and the bytes that each rank has sent.

import { NUMBERS_PER_WAIT } from "#player/document.js";
import { resultCells } from "#player/results.js";

/** From this part of a step on its end is shown: what it frees is gone, what it was to bring is here. */
const OVER_FROM = 0.6;
const [ABSENT, GATHERED, ARRIVING, PARTIAL] = [0, 2, 3, 4];

/** @import { Model } from "#player/scene.d.ts" */

/** The cells of all ranks, moved from step to step by changes and their inverses. */
export class Cells {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    /** The changes of no step are applied yet. */
    this.position = -1;
    this.codes = model.initial.slice();
    /** @type {{position: number, codes: Uint8Array | null}} */
    this.made = { position: -1, codes: null };
    /** @type {{position: number, isBeat: boolean, codes: Uint8Array}} the last requested end of a step, and its codes */
    this.after = { position: -1, isBeat: false, codes: new Uint8Array(0) };
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
   * The same, with the gradients that this step computes on their way. Another array where there are any.
   * @param {number} position
   * @returns {Uint8Array}
   */
  shown(position) {
    const codes = this.seek(position);
    if (this.made.position !== position) {
      const cells = madeCells(this.model, position, codes);
      const copy = cells.length > 0 ? codes.slice() : null;
      for (const cell of cells) {
        /** @type {Uint8Array} */ (copy)[cell] = ARRIVING;
      }
      this.made = { position, codes: copy };
    }
    return this.made.codes ?? codes;
  }

  /**
   * The same when this step is over: without the shards that it frees, and of a beat's last message with the
   * beat's result. Another array.
   * @param {number} position
   * @param {boolean} isBeat its beat is shown, not the step alone
   * @returns {Uint8Array}
   */
  over(position, isBeat) {
    if (this.after.position !== position || this.after.isBeat !== isBeat) {
      const codes = this.shown(position).slice();
      const { model } = this;
      const beat = model.beatOf[position];
      const result = model.results[beat];
      for (const cell of freedCells(model, position)) {
        codes[cell] = ABSENT;
      }
      for (const [cell, code] of isBeat && result?.position === position ? resultCells(model, beat, result) : []) {
        codes[cell] = code;
      }
      this.after = { position, isBeat, codes };
    }
    return this.after.codes;
  }
}

/**
 * Whether a step is over, while it plays: the shards that it frees are gone, the result of its beat is here.
 * @param {Model} model
 * @param {number} position
 * @param {number | null} tween
 * @param {boolean} isBeat its beat is shown, not the step alone
 */
export function isOverAt({ doc, beatOf, results }, position, tween, isBeat) {
  const ends = doc.steps[position].freed.length > 0 || isBeat && results[beatOf[position]]?.position === position;
  return tween !== null && tween >= OVER_FROM && ends;
}

/**
 * How far what moves in a step has come, where its end is shown as well.
 * @param {Model} model
 * @param {number} position
 * @param {number | null} tween
 */
export function movedAt({ beatOf, results }, position, tween) {
  const ends = tween !== null && results[beatOf[position]]?.position === position;
  return ends ? Math.min(1, tween / OVER_FROM) : tween;
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
 * The cells of gradients that a step computes: absent yet, and the first that becomes of them is a gradient of its own.
 * @param {Model} model
 * @param {number} position
 * @param {Uint8Array} codes at this step
 */
function madeCells({ doc, changeStart, changeCell, changeAfter, numShards, numUnits, numStates }, position, codes) {
  const { kind, phase, unit } = doc.steps[position];
  /** @type {number[]} */
  const cells = [];
  if (kind !== "compute" || phase !== "backward" || unit < 0) {
    return cells;
  }
  /** @type {Set<number>} */
  const seen = new Set();
  for (let i = changeStart[position + 1]; i < changeCell.length; i += 1) {
    const cell = changeCell[i];
    const group = Math.floor(cell / numShards);
    if (group % numUnits === unit && codes[cell] === ABSENT && !seen.has(cell) && doc.states[Math.floor(group / numUnits) % numStates].role === "gradients") {
      seen.add(cell);
      if (changeAfter[i] === ARRIVING || changeAfter[i] === PARTIAL) {
        cells.push(cell);
      }
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
