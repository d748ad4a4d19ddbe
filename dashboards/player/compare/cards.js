// A card for each run: the contents of the chosen rank, the law of its memory, and its next action.

import { WORDS } from "#player/compare/words.js";
import { placeOf } from "#player/compare/model.js";
import { palette } from "#player/colours.js";
import { make, write } from "#player/dom.js";
import { Layer, watch } from "#player/draw/layer.js";
import { layoutMap } from "#player/draw/layout.js";
import {
  drawGutter,
  drawStateNames,
  drawTierLines,
  drawTierNames,
  drawUnitNames,
  outlineUnit,
  paintGroup,
  placeLabels,
} from "#player/draw/map.js";
import { eachChanged } from "#player/draw/moment.js";
import { fontsFor, measurer, shorten } from "#player/draw/text.js";
import { isOffline } from "#player/load.js";
import { named } from "#player/words.js";

/** @import { Run } from "#player/compare/model.js" */
/** @import { Theme } from "#player/colours.js" */
/** @import { MapLayout } from "#player/draw/layout.js" */
/** @import { Moment, State } from "#player/types.d.ts" */

/**
 * The contents of a card.
 * @typedef {object} CardScene
 * @property {number} at the moment
 * @property {Moment} moment
 * @property {number} unit that it is about; -1
 * @property {number} rank global
 * @property {Uint8Array} cells of the run at its step
 * @property {Theme} theme
 * @property {boolean} present
 * @property {string} fragment of the address in Replay, after the step
 */

/**
 * Positions of the states that a moment is about.
 * @param {Moment} moment
 * @param {readonly State[]} states
 * @returns {number[]}
 */
export function statesOf({ phase, what }, states) {
  const all = [...states.keys()];
  if (phase === "update" && what === "computed") {
    const onHost = states.some(({ role, tier }) => role === "gradients" && tier === "host");
    return all.filter((s) => states[s].tier === (onHost ? "host" : "device"));
  }
  const part = phase === "backward" && what !== "computes" ? "gradient" : "parameter";
  return all.filter((s) => states[s].tier === "device" && states[s].role.includes(part));
}

/**
 * Where a run's step is replayed.
 * @param {string} name of the trace
 * @param {number} step
 * @param {string} rest of the fragment
 */
export function replayAddress(name, step, rest) {
  return `/replay?trace=${encodeURIComponent(name)}#at=${step + 1}${rest}`;
}

export class RunCard {
  /** @param {Run} run */
  constructor(run) {
    this.run = run;
    const { aligned } = run;
    this.map = make("div", "host map");
    this.map.setAttribute("role", "img");
    this.next = make("p", "next");
    this.link = make("a", "where");
    const title = make("h2", "", named(aligned.title));
    title.title = aligned.name;
    const head = make("div", "heading", title, make("p", "law", aligned.law));
    this.element = make("section", "card run-card", head, this.map, this.next, this.link);
    this.element.setAttribute("aria-label", named(aligned.title));
    this.base = new Layer(this.map);
    this.layer = new Layer(this.map);
    this.marks = new Layer(this.map);
    this.measure = measurer(this.base.ctx);
    this.drawn = new Uint8Array(0);
    /** @type {MapLayout | null} */
    this.layout = null;
    this.frameChanged = watch();
    this.momentChanged = watch();
  }

  /** @param {CardScene} scene */
  render(scene) {
    const { aligned, model } = this.run;
    const { at, rank, theme, present, fragment } = scene;
    const step = aligned.steps[at];
    write(this.next, aligned.follows[at]);
    write(this.link, WORDS.replay(step + 1, model.numSteps));
    if (!isOffline()) {
      this.link.href = replayAddress(aligned.name, step, fragment);
    }
    this.element.classList.toggle("still", !aligned.came[at]);
    this.map.setAttribute("aria-label", WORDS.map(named(aligned.title), rank));
    const { clientWidth: width, clientHeight: height } = this.map;
    const frame = this.frameChanged(theme, present, rank, width, height, devicePixelRatio);
    if (frame || !this.layout) {
      this.lay(width, height, scene);
    }
    if (this.momentChanged(at) || frame) {
      this.drawCells(scene);
      this.drawMarks(scene);
    }
  }

  /** @param {number} width @param {number} height @param {CardScene} scene */
  lay(width, height, { theme, present }) {
    const { doc } = this.run.model;
    const fonts = fontsFor(present);
    const colours = palette(theme);
    const { units, states } = doc;
    this.layout = layoutMap({ width, height, units, states, fonts, measure: this.measure });
    for (const layer of [this.base, this.layer, this.marks]) {
      layer.fit(width, height);
    }
    const { ctx } = this.base;
    if (this.layout.gutter) {
      drawGutter(ctx, { ...this.layout, left: this.layout.left - 10 }, states, colours, fonts);
    } else {
      drawStateNames(ctx, this.layout, states, colours, fonts);
    }
    drawTierLines(ctx, this.layout, this.layout.width, colours, fonts);
    drawTierNames(ctx, this.layout, states, colours, fonts);
    if (states.length === 0) {
      ctx.fillStyle = colours.muted;
      ctx.font = fonts.text;
      ctx.fillText(shorten(WORDS.noStates, width, (text) => this.measure(text, fonts.text)), 3, fonts.size * 2);
    }
    this.drawn = new Uint8Array(this.cellsOf(this.run.model.initial, 0).length).fill(255);
  }

  /** The cells of one rank. @param {Uint8Array} cells @param {number} place */
  cellsOf(cells, place) {
    const { numStates, numUnits, numShards } = this.run.model;
    const size = numStates * numUnits * numShards;
    return cells.subarray(place * size, (place + 1) * size);
  }

  /** @param {CardScene} scene */
  drawCells({ cells, rank, theme }) {
    const { model } = this.run;
    const own = this.cellsOf(cells, placeOf(this.run, rank));
    const { ctx, scale } = this.layer;
    const layout = /** @type {MapLayout} */ (this.layout);
    eachChanged(own, this.drawn, model.numShards, (group) => {
      paintGroup(ctx, palette(theme), scale, model, own, group, layout);
    });
  }

  /** @param {CardScene} scene */
  drawMarks({ moment, unit, theme, present }) {
    const { doc, numStates } = this.run.model;
    const layout = /** @type {MapLayout} */ (this.layout);
    const fonts = fontsFor(present);
    const colours = palette(theme);
    this.marks.clear();
    if (numStates > 0) {
      const labels = placeLabels(doc.units, layout.columns, layout.width, unit, fonts, this.measure);
      drawUnitNames(this.marks.ctx, layout, labels, unit, colours, fonts);
      if (unit >= 0) {
        outlineUnit(this.marks.ctx, layout, unit, statesOf(moment, doc.states), colours);
      }
    }
  }
}
