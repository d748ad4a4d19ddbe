// The contents of one frame: a moment of a document, in one view.

import { Cells, isOverAt, movedAt, sentAt } from "#player/frames.js";
import { subjectOf } from "#player/beats.js";
import { isPipeline } from "#player/lens/flight.js";
import { NO_STOP, playedAt } from "#player/tour.js";

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
   * Its cells and packets are valid until the next one is requested.
   * @param {number} position
   * @param {number | null} ticked how far the clock has played the step
   * @param {Seen} seen
   * @returns {Scene}
   */
  at(position, ticked, seen) {
    const { model, cells } = this;
    const now = { position, tween: playedAt(model, seen.tour, ticked) };
    const isWhole = seen.hops || seen.tour !== NO_STOP || isPipeline(model);
    const subject = isWhole ? now : subjectOf(model, position, now.tween);
    const isOver = isOverAt(model, subject.position, subject.tween, !isWhole);
    return {
      model,
      document: model.doc,
      position: subject.position,
      tween: isWhole ? subject.tween : movedAt(model, subject.position, subject.tween),
      now,
      cells: isOver ? cells.over(subject.position, !isWhole) : cells.shown(subject.position),
      isOver,
      sent: sentAt(model, position, now.tween, this.sent),
      ...seen,
    };
  }
}
