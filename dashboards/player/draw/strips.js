// More than eight ranks: a heat strip for each. Changes are drawn when a step begins; packets move on a rail
// beside the strips.

import { inkOn, palette, shardColour } from "#player/colours.js";
import { cellAt } from "#player/naming/find.js";
import { nameCell, nameRank } from "#player/naming/names.js";
import { paintRuns } from "#player/draw/cells.js";
import { hasLabel, hitRow, layoutFold, rowY, sideOf } from "#player/draw/fold.js";
import { Layer, watch } from "#player/draw/layer.js";
import { activeStates, doing, eachChanged } from "#player/draw/moment.js";
import { edgesOf, progress } from "#player/draw/ring.js";
import { shortRole } from "#player/draw/stack.js";
import { fontsFor, measurer, shorten } from "#player/draw/text.js";
import { waitFill } from "#player/draw/textures.js";
import { named, say } from "#player/words.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { FoldLayout } from "#player/draw/fold.js" */
/** @import { Edge } from "#player/draw/ring.js" */
/** @import { Fonts, Measure } from "#player/draw/text.js" */
/** @import { Region } from "#player/regions.js" */
/** @import { Scene } from "#player/scene.d.ts" */

export class Strips {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
    this.cells = new Layer(host);
    this.marks = new Layer(host);
    /** @type {Layer[]} one beside each column of strips */
    this.rails = [];
    this.measure = measurer(this.cells.ctx);
    this.drawn = new Uint8Array(0);
    /** @type {FoldLayout | null} */
    this.layout = null;
    /** @type {Edge[]} */
    this.edges = [];
    this.numRanks = 0;
    this.frameChanged = watch();
    this.stepChanged = watch();
    this.moved = watch();
  }

  /**
   * @param {Scene} scene
   * @param {number} width
   * @param {number} height
   */
  render(scene, width, height) {
    const { model, document: doc, theme, present, position, rank, tween, isOver } = scene;
    const colours = palette(theme);
    const fonts = fontsFor(present);
    const frame = this.frameChanged(model, theme, present, width, height, devicePixelRatio);
    if (frame || !this.layout) {
      this.numRanks = model.numRanks;
      const labelWidth = this.measure(`${doc.ranks[doc.ranks.length - 1]}`, fonts.strong);
      const { units, states } = doc;
      const numRanks = model.numRanks;
      this.layout = layoutFold({ width, height, numRanks, units, states, fonts, labelWidth });
      this.cells.fit(width, height);
      this.marks.fit(width, height);
      this.fitRails(height);
      drawHeader(this.cells.ctx, this.layout, scene, colours, fonts, this.measure);
      this.drawn = new Uint8Array(scene.cells.length).fill(255);
    }
    const changed = this.stepChanged(position, rank, isOver) || frame;
    if (changed) {
      this.edges = edgesOf(doc.steps[position]).filter(({ from, to }) => from >= 0 && to >= 0);
      this.drawCells(scene, colours);
      drawMarks(this.marks, this.layout, scene, colours, fonts);
    }
    if (this.moved(tween, this.edges, theme, this.layout)) {
      this.drawPackets(scene, colours);
    }
    return this.layout;
  }

  /** @param {number} height */
  fitRails(height) {
    const { sides, labelWidth, railWidth } = /** @type {FoldLayout} */ (this.layout);
    while (this.rails.length < sides.length) {
      this.rails.push(new Layer(this.host));
    }
    while (this.rails.length > sides.length) {
      this.rails.pop()?.remove();
    }
    for (const [i, side] of sides.entries()) {
      this.rails[i].fit(railWidth, height, side.x + labelWidth + 8, 0);
    }
  }

  /** @param {Scene} scene @param {Palette} colours */
  drawCells({ model, cells }, colours) {
    const { numShards, numStates, numUnits } = model;
    const layout = /** @type {FoldLayout} */ (this.layout);
    const { ctx, scale } = this.cells;
    eachChanged(cells, this.drawn, numShards, (group) => {
      const unit = group % numUnits;
      const state = Math.floor(group / numUnits) % numStates;
      const rank = Math.floor(group / numUnits / numStates);
      const column = layout.columns[state][unit];
      const x = layout.sides[sideOf(layout, rank)].x + layout.blocks[state].x + column.x;
      const y = rowY(layout, rank);
      paintRuns(ctx, colours, scale, cells, group * numShards, numShards, model.doc.units[unit].hue, x, y, column.w, layout.strip);
    });
  }

  /** @param {Scene} scene @param {Palette} colours */
  drawPackets({ document: doc, position, tween }, colours) {
    const layout = /** @type {FoldLayout} */ (this.layout);
    const { start_ns, end_ns } = doc.steps[position];
    const middle = layout.strip / 2;
    const radius = Math.max(2, Math.min(4.5, layout.rowHeight * 0.3));
    for (const rail of this.rails) {
      rail.clear();
      rail.ctx.strokeStyle = colours.arc;
      rail.ctx.lineWidth = 1.5;
    }
    for (const edge of this.edges) {
      const side = sideOf(layout, edge.from);
      const { ctx } = this.rails[side];
      const from = rowY(layout, edge.from) + middle;
      // Packets to the other column leave this one at its end.
      const sameSide = sideOf(layout, edge.to) === side;
      const end = layout.top + layout.rows * layout.rowHeight;
      const to = sameSide ? rowY(layout, edge.to) + middle : edge.to > edge.from ? end : layout.top;
      const near = sameSide && Math.abs(edge.to - edge.from) === 1;
      const bulge = near || !sameSide ? 7 : layout.railWidth - 8;
      const right = layout.railWidth - 3;
      const part = progress(edge, start_ns, end_ns, tween);
      ctx.beginPath();
      ctx.moveTo(right, from);
      ctx.bezierCurveTo(right - bulge, from, right - bulge, to, right, to);
      ctx.stroke();
      const t = 3 * part * (1 - part);
      const y = from + (to - from) * part * part * (3 - 2 * part);
      ctx.fillStyle = shardColour(colours, edge.shard);
      ctx.beginPath();
      ctx.arc(right - bulge * t, y, radius, 0, 7);
      ctx.fill();
    }
  }

  /** @param {number} x @param {number} y */
  hit(x, y) {
    return this.layout ? hitRow(this.layout, this.numRanks, x, y) : -1;
  }

  /** @param {Scene} scene @param {number} x @param {number} y @returns {Region | null} */
  find({ model, cells, position }, x, y) {
    const { layout } = this;
    const rank = this.hit(x, y);
    if (!layout || rank < 0) {
      return null;
    }
    const side = layout.sides[sideOf(layout, rank)];
    const top = rowY(layout, rank);
    const state = layout.blocks.findIndex((block) => x >= side.x + block.x && x <= side.x + block.x + block.w);
    const bands = state < 0 ? [] : [{ y: top, h: layout.strip }];
    const place = { left: side.x + (layout.blocks[state]?.x ?? 0), columns: layout.columns[state] ?? [], bands };
    const cell = cellAt(place, model.numShards, x, y);
    if (!cell) {
      return { box: { x: side.x, y: top, w: side.w, h: layout.strip }, named: nameRank(model, position, rank) };
    }
    return { box: cell.box, named: nameCell(model, cells, { ...cell, rank, state }) };
  }

  /** Each rank. @returns {[number, number][]} */
  spots() {
    const { layout } = this;
    return Array.from({ length: layout ? this.numRanks : 0 }, (_, rank) => [
      layout ? layout.sides[sideOf(layout, rank)].x + 2 : 0,
      layout ? rowY(layout, rank) + layout.strip / 2 : 0,
    ]);
  }

  remove() {
    for (const layer of [this.cells, this.marks, ...this.rails]) {
      layer.remove();
    }
  }
}

/** Names of states where a block is narrower than their words. */
const BRIEF = new Map([
  ["parameters", "param"],
  ["gradients", "grad"],
  ["fp32 master", "mast"],
  ["momentum", "mom"],
  ["variance", "var"],
]);

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {FoldLayout} layout
 * @param {Scene} scene
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {Measure} measure
 */
function drawHeader(ctx, layout, { document: doc }, colours, fonts, measure) {
  ctx.font = fonts.text;
  ctx.fillStyle = colours.muted;
  /** @param {string} text */
  const width = (text) => measure(text, fonts.text);
  if (doc.states.length === 0) {
    ctx.fillText(say("shared.no_states"), layout.labelWidth + layout.railWidth + 16, layout.headerY);
  }
  for (const side of layout.sides) {
    for (const [s, { label, role }] of doc.states.entries()) {
      const block = layout.blocks[s];
      const fits = [label, named(role), shortRole(role), named(BRIEF.get(role) ?? role)].find((text) => width(text) <= block.w + 8);
      ctx.fillText(fits ?? shorten(named(role), block.w + 8, width), side.x + block.x, layout.headerY);
    }
  }
}

/**
 * Names and actions of ranks, the selected row, and the active unit.
 * @param {Layer} layer
 * @param {FoldLayout} layout
 * @param {Scene} scene
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
function drawMarks(layer, layout, scene, colours, fonts) {
  const { ctx, scale } = layer;
  const { document: doc, model, position, rank: selected } = scene;
  const step = doc.steps[position];
  const { rows, rowHeight, strip, sides, labelWidth, railWidth, blocks, columns } = layout;
  layer.clear();
  for (let rank = 0; rank < model.numRanks; rank += 1) {
    const side = sides[sideOf(layout, rank)];
    const y = rowY(layout, rank);
    if (hasLabel(layout, rank, selected)) {
      drawLabel(ctx, `${doc.ranks[rank]}`, rank === selected, side.x, y + strip / 2, labelWidth, colours, fonts);
    }
    const word = doing(step, rank);
    if (word !== "") {
      ctx.fillStyle = word === "waits" ? waitFill(ctx, colours, scale) : colours.phases[step.phase];
      ctx.fillRect(side.x + labelWidth + railWidth + 1, y, 6, strip);
    }
    if (rank === selected && blocks.length > 0) {
      ctx.strokeStyle = colours.select;
      ctx.lineWidth = 2;
      ctx.beginPath();
      const x = side.x + blocks[0].x - 4;
      ctx.roundRect(x, y - 2, side.x + side.w - x - 1, strip + 4, 3);
      ctx.stroke();
    }
  }
  if (step.unit < 0) {
    return;
  }
  ctx.strokeStyle = colours.strong;
  ctx.lineWidth = 2;
  for (const state of activeStates(step, doc.states)) {
    const column = columns[state][step.unit];
    for (const [i, side] of sides.entries()) {
      const count = Math.min(rows, model.numRanks - i * rows);
      const x = side.x + blocks[state].x + column.x - 2;
      ctx.beginPath();
      ctx.roundRect(x, layout.top - 3, column.w + 4, Math.round(count * rowHeight) + 2, 3);
      ctx.stroke();
    }
  }
}

/**
 * A rank's name right-aligned before its strip; the selected one on its colour.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} text
 * @param {boolean} selected
 * @param {number} x
 * @param {number} y of the middle
 * @param {number} width
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
function drawLabel(ctx, text, selected, x, y, width, colours, fonts) {
  if (selected) {
    ctx.fillStyle = colours.select;
    ctx.beginPath();
    ctx.roundRect(x, y - fonts.size * 0.6, width + 6, fonts.size * 1.2, 4);
    ctx.fill();
  }
  ctx.font = selected ? fonts.strong : fonts.text;
  ctx.fillStyle = selected ? inkOn(colours.select) : colours.muted;
  ctx.textAlign = "right";
  ctx.fillText(text, x + width + 3, y + fonts.size * 0.36);
  ctx.textAlign = "left";
}
