// What one frame shows: a moment of a document, seen in one way.

import { Cells, isFreedAt, sentAt } from "#player/frames.js";
import { playedAt } from "#player/tour.js";

/** @import { Model, Scene } from "#player/scene.d.ts" */

/** How a moment is looked at. @typedef {Pick<Scene, "hops" | "tour" | "marks" | "rank" | "theme" | "present" | "reduced" | "breakpoints">} Seen */

export class Scenes {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.cells = new Cells(model);
    this.sent = new Float64Array(model.numRanks);
  }

  /**
   * Its cells and what is sent are good until the next one is asked for.
   * @param {number} position
   * @param {number | null} ticked how far the clock has played the step
   * @param {Seen} seen
   * @returns {Scene}
   */
  at(position, ticked, seen) {
    const { model, cells } = this;
    const tween = playedAt(model, seen.tour, ticked);
    const isFreed = isFreedAt(model, position, tween);
    return {
      model,
      document: model.doc,
      position,
      tween,
      cells: isFreed ? cells.freed(position) : cells.seek(position),
      isFreed,
      sent: sentAt(model, position, tween, this.sent),
      ...seen,
    };
  }
}
