// Rank cards: the contents of each rank, one column per unit, one band per state. Drawn when a
// step begins: of the cells only those that changed.

import { palette, shardColour } from "#player/colours.js";
import { cellAt } from "#player/naming/find.js";
import { nameCell, nameRank, nameThatFits } from "#player/naming/names.js";
import { Layer, watch } from "#player/draw/layer.js";
import { hit, layoutCards } from "#player/draw/layout.js";
import { crossRun, drawGutter, drawStateNames, drawTierLines, drawTierNames, drawTightGutter, drawUnitNames, freedRuns, outlineUnit, paintGroup, placeLabels } from "#player/draw/map.js";
import { activeStates, computes, eachChanged, heldBytes } from "#player/draw/moment.js";
import { isPipeline, turnIn } from "#player/lens/flight.js";
import { freedCells } from "#player/frames.js";
import { unitsOf } from "#player/lens/subject.js";
import { drawRoles } from "#player/draw/roles.js";
import { fontsFor, measurer } from "#player/draw/text.js";
import { formatBytes } from "#player/format.js";
import { say } from "#player/words.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { CardLayout } from "#player/draw/layout.js" */
/** @import { Fonts, Measure } from "#player/draw/text.js" */
/** @import { Region } from "#player/regions.js" */
/** @import { Scene } from "#player/scene.d.ts" */
/** @import { Unit } from "#player/types.d.ts" */

const RADIUS = 10;

export class Cards {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.base = new Layer(host);
    this.cells = new Layer(host);
    this.marks = new Layer(host);
    this.measure = measurer(this.base.ctx);
    this.drawn = new Uint8Array(0);
    /** @type {CardLayout | null} */
    this.layout = null;
    this.frameChanged = watch();
    this.stepChanged = watch();
  }

  /**
   * @param {Scene} scene
   * @param {number} width
   * @param {number} height
   */
  render(scene, width, height) {
    const { model, document: doc, theme, present, position, hops, rank, isOver } = scene;
    const colours = palette(theme);
    const fonts = fontsFor(present);
    const frame = this.frameChanged(model, theme, present, width, height, devicePixelRatio);
    if (frame || !this.layout) {
      this.layout = layoutCards({
        width,
        height,
        numRanks: model.numRanks,
        units: doc.units,
        states: doc.states,
        fonts,
        measure: this.measure,
        ranks: doc.ranks,
        perNode: doc.run.ranks_per_node,
      });
      for (const layer of [this.base, this.cells, this.marks]) {
        layer.fit(width, height);
      }
      drawBase(this.base, this.layout, scene, colours, fonts, this.measure);
      this.drawn = new Uint8Array(scene.cells.length).fill(255);
    }
    const step = this.stepChanged(position, hops, rank, isOver);
    if (frame || step) {
      this.drawCells(scene, colours);
      drawMarks(this.marks, this.layout, scene, colours, fonts, this.measure);
    }
    return this.layout;
  }

  /** @param {Scene} scene @param {Palette} colours */
  drawCells({ model, cells }, colours) {
    const { numShards, numStates, numUnits } = model;
    const layout = /** @type {CardLayout} */ (this.layout);
    const { cards } = layout;
    eachChanged(cells, this.drawn, numShards, (group) => {
      const { x } = cards[Math.floor(group / numUnits / numStates)];
      const { ctx, scale } = this.cells;
      paintGroup(ctx, colours, scale, model, cells, group, { ...layout, left: x + layout.pad });
    });
  }

  /** @param {number} x @param {number} y */
  hit(x, y) {
    return this.layout ? hit(this.layout.cards, x, y) : -1;
  }

  /** @param {Scene} scene @param {number} x @param {number} y @returns {Region | null} */
  find({ model, cells, position }, x, y) {
    const { layout } = this;
    const rank = this.hit(x, y);
    if (!layout || rank < 0) {
      return null;
    }
    const place = { ...layout, left: layout.cards[rank].x + layout.pad };
    const cell = cellAt(place, model.numShards, x, y);
    if (!cell) {
      return { box: layout.cards[rank], named: nameRank(model, position, rank) };
    }
    return { box: cell.box, named: nameCell(model, cells, { rank, ...cell }) };
  }

  /** Each unit of each state that a rank has. @returns {[number, number][]} */
  spots() {
    const { cards, bands, columns, pad } = this.layout ?? { cards: [], bands: [], columns: [], pad: 0 };
    return cards.flatMap((card) => [
      /** @type {[number, number]} */ ([card.x + card.w / 2, card.y + 4]),
      ...bands.flatMap((band) => columns.map(({ x }) => /** @type {[number, number]} */ ([card.x + pad + x + 1, band.y + band.h / 2]))),
    ]);
  }

  remove() {
    for (const layer of [this.base, this.cells, this.marks]) {
      layer.remove();
    }
  }
}

/**
 * The static part: the cards and the names of ranks and states.
 * @param {Layer} layer
 * @param {CardLayout} layout
 * @param {Scene} scene
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {Measure} measure
 */
function drawBase({ ctx }, layout, { document: doc }, colours, fonts, measure) {
  const { cards, pad, gutter, nameY } = layout;
  for (const [r, card] of cards.entries()) {
    ctx.fillStyle = colours.inset;
    ctx.strokeStyle = colours.line;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.roundRect(card.x + 0.5, card.y + 0.5, card.w - 1, card.h - 1, RADIUS);
    ctx.fill();
    ctx.stroke();
    const radius = fonts.size * 0.5;
    // A rank has the hue of the shard that it owns.
    ctx.fillStyle = shardColour(colours, doc.ranks[r]);
    ctx.beginPath();
    ctx.arc(card.x + pad + radius, nameY - fonts.size * 0.35, radius, 0, 7);
    ctx.fill();
    ctx.fillStyle = colours.text;
    ctx.font = fonts.strong;
    const room = card.w - 2 * pad - 2 * radius - 6;
    const name = nameThatFits(doc, r, room, (text) => measure(text, fonts.strong));
    ctx.fillText(name, card.x + pad + 2 * radius + 6, nameY);
    if (!gutter) {
      drawStateNames(ctx, { ...layout, left: card.x + pad }, doc.states, colours, fonts);
    }
    const states = gutter ? [] : doc.states;
    drawTierLines(ctx, { ...layout, left: card.x + pad }, card.w - 2 * pad, colours, fonts);
    drawTierNames(ctx, { ...layout, left: card.x + pad }, states, colours, fonts);
  }
  if (gutter) {
    const place = { ...layout, left: cards[0].x - 12 };
    (layout.isTight ? drawTightGutter : drawGutter)(ctx, place, doc.states, colours, fonts);
    ctx.textAlign = "right";
    drawTierNames(ctx, place, doc.states, colours, fonts);
    if (doc.states.length > 0 && !layout.isNarrow) {
      ctx.font = fonts.text;
      ctx.fillStyle = colours.muted;
      ctx.fillText(!layout.isTight && doc.states.some(({ tier }) => tier !== "device") ? say("draw.cards.device") : say("draw.cards.states"), place.left, layout.bytesY);
    }
    ctx.textAlign = "left";
  }
  drawNodes(ctx, layout, colours, fonts);
}

/**
 * The borders of nodes: a bracket below the cards of each, a dashed line between two.
 * @param {CanvasRenderingContext2D} ctx
 * @param {CardLayout} layout
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
function drawNodes(ctx, { nodes, nodeY, cards }, colours, fonts) {
  const bottom = nodeY + 4;
  ctx.textAlign = "center";
  ctx.font = fonts.strong;
  for (const [n, { left, right, name }] of nodes.entries()) {
    const middle = nodeY - fonts.size * 0.36;
    ctx.strokeStyle = colours.wait;
    ctx.lineWidth = 2;
    ctx.beginPath();
    ctx.moveTo(left + 1, cards[0].y + cards[0].h + 3);
    ctx.lineTo(left + 1, middle);
    ctx.lineTo(right - 1, middle);
    ctx.lineTo(right - 1, cards[0].y + cards[0].h + 3);
    ctx.stroke();
    const half = ctx.measureText(name).width / 2 + 10;
    ctx.fillStyle = colours.card;
    ctx.fillRect((left + right) / 2 - half, middle - fonts.size * 0.6, 2 * half, fonts.size * 1.2);
    ctx.fillStyle = colours.text;
    ctx.fillText(name, (left + right) / 2, nodeY);
    if (n > 0) {
      const x = Math.round((nodes[n - 1].right + left) / 2);
      ctx.setLineDash([2, 4]);
      ctx.beginPath();
      ctx.moveTo(x, 2);
      ctx.lineTo(x, bottom);
      ctx.stroke();
      ctx.setLineDash([]);
    }
  }
  ctx.textAlign = "left";
}

/**
 * A step's changes besides the cells: bytes, actions of ranks, and the active unit.
 * @param {Layer} layer
 * @param {CardLayout} layout
 * @param {Scene} scene
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {Measure} measure
 */
function drawMarks(layer, layout, scene, colours, fonts, measure) {
  const { ctx } = layer;
  const { cards, bands, columns, pad, gutter, bytesY, twoLines, isNarrow } = layout;
  const { model, document: doc, cells, position, hops, isOver } = scene;
  const freed = isOver ? [] : freedCells(model, position);
  const step = doc.steps[position];
  const inTurns = !hops && isPipeline(model);
  const one = unitsOf(model, cells, position, hops).length === 1;
  const units = bands.length > 0 ? doc.units : [];
  const parameters = doc.states.findIndex(({ role, tier }) => role === "parameters" && tier === "device");
  const unit = isNarrow ? formatBytes(heldBytes(model, cells, 0)).split(" ")[1] : "";
  layer.clear();
  if (unit && bands.length > 0) {
    nameUnit(ctx, layout, unit, colours, fonts);
  }
  for (const [r, card] of cards.entries()) {
    const left = card.x + pad;
    const right = card.x + card.w - pad;
    if (doc.states.length === 0) {
      const { unitsY } = layout;
      const place = { left, right, height: fonts.size, top: unitsY - fonts.size, textY: unitsY + 1.3 * fonts.size };
      drawRoles(ctx, scene, r, place, colours, fonts, measure);
    }
    const turn = inTurns ? turnIn(model, position, r) : null;
    const phase = turn?.phase ?? step.phase;
    const active = turn?.unit ?? (one && (!inTurns || step.ranks.includes(r)) ? step.unit : -1);
    if (turn || computes(step, r)) {
      markCard(ctx, card, colours.phases[phase]);
    }
    if (r === scene.rank && cards.length > 1) {
      ctx.strokeStyle = colours.select;
      ctx.lineWidth = 2;
      ctx.beginPath();
      ctx.roundRect(card.x + 1, card.y + 1, card.w - 2, card.h - 2, RADIUS);
      ctx.stroke();
    }
    if (bands.length > 0) {
      ctx.fillStyle = colours.muted;
      ctx.font = fonts.mono;
      ctx.textAlign = twoLines ? "left" : "right";
      const where = gutter ? "" : model.tiers.length > 1 ? say("draw.cards.states_device") : say("draw.cards.states_2");
      const text = formatBytes(heldBytes(model, cells, r));
      ctx.fillText(isNarrow && text.endsWith(` ${unit}`) ? text.split(" ")[0] : where + text, twoLines ? left : right, bytesY);
      ctx.textAlign = "right";
      for (const [s, { seamY }] of bands.entries()) {
        if (!Number.isNaN(seamY)) {
          ctx.fillText(formatBytes(heldBytes(model, cells, r, doc.states[s].tier)), right, seamY);
        }
      }
    }
    ctx.textAlign = "left";
    const labels = placeLabels(units, columns, card.w - 2 * pad, active, fonts, measure);
    drawUnitNames(ctx, { ...layout, left }, labels, active, colours, fonts);
    if (active >= 0 && (turn || step.ranks.includes(r))) {
      const states = activeStates(turn ? { ...step, kind: "compute", op: "", phase } : step, doc.states);
      for (const unit of turn ? stageUnits(units, turn.stage) : [active]) {
        outlineUnit(ctx, { ...layout, left }, unit, states, colours);
      }
    }
    for (const unit of parameters < 0 || isOver ? [] : step.freed) {
      for (const { from, to } of freedRuns(model, freed, r, parameters, unit)) {
        crossRun(ctx, { ...layout, left }, unit, parameters, { from: from / model.numShards, to: to / model.numShards }, colours);
      }
    }
  }
}

/**
 * Left of cards that have room for a number alone, in what it is counted.
 * @param {CanvasRenderingContext2D} ctx
 * @param {CardLayout} layout
 * @param {string} unit
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
function nameUnit(ctx, { cards, bytesY }, unit, colours, fonts) {
  ctx.font = fonts.text;
  ctx.fillStyle = colours.muted;
  ctx.textAlign = "right";
  ctx.fillText(`${say("draw.cards.states")}, ${unit}`, cards[0].x - 12, bytesY);
}

/** @param {readonly Unit[]} units @param {string} stage */
function stageUnits(units, stage) {
  return [...units.keys()].filter((unit) => units[unit].stage === stage);
}

/**
 * The upper border of a rank that computes: its phase. How long one waits, the magnifier says.
 * @param {CanvasRenderingContext2D} ctx
 * @param {import("#player/draw/layout.js").Box} card
 * @param {string} phase its colour
 */
function markCard(ctx, card, phase) {
  ctx.save();
  ctx.beginPath();
  ctx.roundRect(card.x, card.y, card.w, card.h, RADIUS);
  ctx.clip();
  ctx.fillStyle = phase;
  ctx.fillRect(card.x, card.y, card.w, 6);
  ctx.restore();
}
