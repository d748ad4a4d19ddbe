// Traffic: what each rank has sent so far, by phase, filling towards the law.

import { PHASES, inkOn, palette } from "#player/colours.js";
import { letterOfPhase } from "#player/draw/bars.js";
import { Layer, watch } from "#player/draw/layer.js";
import { fontsFor, measurer, niceStep } from "#player/draw/text.js";
import { formatBytes, formatCount } from "#player/format.js";
import { nameSent } from "#player/naming/names.js";
import { say } from "#player/words.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { View } from "#player/draw/layer.js" */
/** @import { Fonts, Measure } from "#player/draw/text.js" */
/** @import { Region } from "#player/regions.js" */
/** @import { Model, Scene } from "#player/scene.d.ts" */
/** @import { Link, ReplayDocument, Traffic } from "#player/types.d.ts" */

/**
 * @typedef {object} TrafficLayout
 * @property {number} left
 * @property {number} width of the scale
 * @property {number} top
 * @property {number} rowHeight
 * @property {number} bar
 * @property {number} bottom of the bars
 * @property {number} most bytes at the right end of the scale
 * @property {number} linkTop of the rows by link; NaN without
 * @property {number} linkRow
 * @property {number} linkLeft of their bars
 * @property {number} linkMost bytes at the right end of their scale
 */

/** The short name of a link. @type {Readonly<Record<Link, string>>} */
export const LINK_NAMES = {
  "within a node": say("draw.traffic.in_node"),
  "between nodes": say("draw.traffic.across_nodes"),
  bus: say("draw.traffic.bus"),
  storage: say("draw.traffic.disk"),
};

/**
 * Bytes at the right end of the scale: three Psi where a law is known, and never less than sent.
 * @param {Traffic} traffic
 */
export function scaleOf({ law, law_bytes, psi_bytes, total }) {
  const sent = Math.max(0, ...total.map((one) => one ?? 0));
  if (law === "" || psi_bytes === 0) {
    return Math.max(1, sent);
  }
  return Math.max(3 * psi_bytes, law_bytes ?? 0, sent);
}

/**
 * Bytes that a rank has sent, by phase.
 * @param {Model} model
 * @param {number} position
 * @param {Float64Array} sent by rank, until now
 * @param {number} rank
 * @param {Float64Array} out a number for each of PHASES
 */
export function sentByPhase({ phases, phaseOf, sentBefore, numRanks }, position, sent, rank, out) {
  out.fill(0);
  const last = phaseOf[position];
  for (let i = 0; i <= last; i += 1) {
    const begun = sentBefore[phases[i].first * numRanks + rank];
    const until = i < last ? sentBefore[(phases[i].last + 1) * numRanks + rank] : sent[rank];
    const phase = PHASES.indexOf(phases[i].phase);
    out[phase < 0 ? PHASES.length - 1 : phase] += until - begun;
  }
  return out;
}

/** @implements {View} */
export class TrafficView {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
    this.layer = new Layer(host);
    this.bars = new Layer(host);
    this.line = new Layer(host);
    this.measure = measurer(this.layer.ctx);
    this.changed = watch();
    /** @type {TrafficLayout | null} */
    this.layout = null;
    this.parts = new Float64Array(PHASES.length);
    this.drawnAt = NaN;
    /** @type {Scene | null} */
    this.scene = null;
    this.width = 0;
    this.height = 0;
    this.resize();
  }

  /** @param {Scene} scene */
  render(scene) {
    const { model, theme, present, rank } = scene;
    const { position, tween } = scene.now;
    const { width, height } = this;
    this.scene = scene;
    if (this.changed(model, theme, present, rank, width, height, devicePixelRatio)) {
      this.drawScale(scene);
      this.drawnAt = NaN;
    }
    const at = position + (tween ?? 0);
    if (at !== this.drawnAt) {
      this.drawnAt = at;
      this.drawBars(scene);
    }
  }

  /** @param {Scene} scene */
  drawScale({ document: doc, model, theme, present, rank: selected }) {
    const { width, height } = this;
    const { ctx } = this.layer;
    const colours = palette(theme);
    const fonts = fontsFor(present);
    const { traffic, ranks } = doc;
    const few = ranks.length <= 8;
    const links = traffic.links.length;
    const linkRow = links > 0 ? Math.min(30, Math.max(fonts.size + 3, Math.floor(height * 0.115))) : 0;
    const linkHeight = links > 0 ? links * linkRow + fonts.size + 12 : 0;
    const hasLaw = traffic.law !== "" && traffic.law_bytes !== null;
    const longest = few ? say("shared.rank", { rank: ranks[ranks.length - 1] }) : String(ranks[ranks.length - 1]);
    const left = Math.ceil(this.measure(longest, fonts.strong)) + 12;
    const lawTop = hasLaw ? fonts.size + 8 : 2;
    const bottom = Math.max(lawTop + 10, height - fonts.size - 10 - linkHeight);
    const exact = Math.min(38, (bottom - lawTop) / ranks.length);
    const rowHeight = exact >= 5 ? Math.floor(exact) : exact;
    const layout = {
      left,
      width: width - left - fonts.size,
      top: lawTop,
      rowHeight,
      bar: rowHeight >= 12 ? Math.round(rowHeight * 0.68) : Math.max(1, rowHeight - (rowHeight > 4 ? 2 : 0.5)),
      bottom: Math.round(lawTop + rowHeight * ranks.length),
      most: scaleOf(traffic),
      linkTop: links > 0 ? height - links * linkRow : NaN,
      linkRow,
      linkLeft: Math.ceil(Math.max(0, ...traffic.links.map(({ link }) => this.measure(LINK_NAMES[link], fonts.text)))) + 12,
      linkMost: linkScale(model, selected),
    };
    this.layout = layout;
    for (const layer of [this.layer, this.line]) {
      layer.fit(width, height);
    }
    this.bars.fit(width, height);
    const every = [1, 2, 4, 8, 16].find((step) => step * rowHeight >= fonts.size + 2) ?? 32;
    for (const [r, rank] of ranks.entries()) {
      const y = layout.top + r * rowHeight;
      ctx.fillStyle = colours.track;
      ctx.fillRect(left, y, layout.width, layout.bar);
      const near = r !== selected && Math.abs(r - selected) * rowHeight < fonts.size;
      if (r === selected || (r % every === 0 && !near)) {
        ctx.fillStyle = r === selected ? colours.text : colours.muted;
        ctx.font = r === selected ? fonts.strong : fonts.text;
        const baseline = Math.max(fonts.size * 0.8, y + layout.bar / 2 + fonts.size * 0.36);
        ctx.fillText(few ? say("shared.rank", { rank }) : String(rank), 0, baseline);
      }
    }
    drawAxis(ctx, traffic, layout, colours, fonts);
    if (hasLaw) {
      drawLaw(this.line.ctx, doc, layout, colours, fonts, this.measure);
    }
    if (links > 0) {
      drawLinks(this.layer.ctx, this.line.ctx, doc, selected, layout, width, colours, fonts);
    }
  }

  /** @param {Scene} scene */
  drawBars(scene) {
    const { model, sent, theme, present } = scene;
    const { position } = scene.now;
    const layout = /** @type {TrafficLayout} */ (this.layout);
    const { left, top, rowHeight, bar, width, most } = layout;
    const { ctx } = this.bars;
    const colours = palette(theme);
    const fonts = fontsFor(present);
    this.bars.clear();
    for (let r = 0; r < model.numRanks; r += 1) {
      sentByPhase(model, position, sent, r, this.parts);
      let x = left;
      const y = top + r * rowHeight;
      for (let p = 0; p < PHASES.length; p += 1) {
        const w = (this.parts[p] / most) * width;
        if (w <= 0) {
          continue;
        }
        const fill = colours.phases[PHASES[p]];
        ctx.fillStyle = fill;
        ctx.fillRect(x, y, Math.max(0.5, w - 1), bar);
        const word = [PHASES[p], letterOfPhase(PHASES[p])].find((one) => this.measure(one, fonts.text) + 8 < w);
        if (bar >= fonts.size && word) {
          ctx.fillStyle = inkOn(fill);
          ctx.font = fonts.text;
          ctx.fillText(word, x + 4, y + bar / 2 + fonts.size * 0.35);
        }
        x += w;
      }
    }
    this.drawMoved(scene, layout, colours, fonts);
  }

  /** Traffic over each link of the selected rank. @param {Scene} scene @param {TrafficLayout} layout
   *  @param {Palette} colours @param {Fonts} fonts */
  drawMoved({ model, now: { position, tween }, rank }, { linkTop, linkRow, linkLeft, linkMost }, colours, fonts) {
    const { ctx } = this.bars;
    const room = this.width - linkLeft - valueRoom(this.measure, fonts);
    ctx.font = fonts.text;
    for (const [k, { link }] of model.doc.traffic.links.entries()) {
      const bytes = movedAt(model, k, position, tween, rank);
      const y = linkTop + k * linkRow;
      ctx.fillStyle = linkColour(colours, link);
      ctx.fillRect(linkLeft, y + 2, (bytes / linkMost) * room, linkRow - 5);
      ctx.fillStyle = colours.text;
      ctx.textAlign = "right";
      ctx.fillText(formatBytes(Math.round(bytes)), this.width, y + linkRow / 2 + fonts.size * 0.33);
      ctx.textAlign = "left";
    }
  }

  /** @param {number} _x @param {number} y @returns {Region | null} */
  find(_x, y) {
    const { layout, scene } = this;
    const rank = layout ? Math.floor((y - layout.top) / layout.rowHeight) : -1;
    if (!layout || !scene || rank < 0 || rank >= scene.model.numRanks) {
      return null;
    }
    const box = { x: layout.left, y: layout.top + rank * layout.rowHeight, w: layout.width, h: layout.bar };
    return { box, named: nameSent(scene.model, scene.sent, rank) };
  }

  /** Each rank. @returns {[number, number][]} */
  spots() {
    const { top, rowHeight, left } = this.layout ?? { top: 0, rowHeight: 0, left: 0 };
    return Array.from({ length: this.scene?.model.numRanks ?? 0 }, (_, rank) => [left + 4, top + (rank + 0.4) * rowHeight]);
  }

  resize() {
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
  }

  destroy() {
    for (const layer of [this.layer, this.bars, this.line]) {
      layer.remove();
    }
  }
}

/** Bytes that went over a link of a rank, the played part of the step included. @param {Model} model
 *  @param {number} link @param {number} position @param {number | null} tween @param {number} rank */
export function movedAt({ movedBefore, numRanks }, link, position, tween, rank) {
  const at = position * numRanks + rank;
  const before = movedBefore[link][at];
  return before + (tween ?? 0) * (movedBefore[link][at + numRanks] - before);
}

/** Bytes at the right end of the links' scale. @param {Model} model @param {number} rank */
function linkScale({ doc, movedBefore, numSteps, numRanks }, rank) {
  const totals = movedBefore.map((moved) => moved[numSteps * numRanks + rank]);
  const laws = doc.traffic.links.map(({ law_bytes: law }) => law[rank] ?? 0);
  return Math.max(1, ...totals, ...laws) * 1.02;
}

/** @param {Palette} colours @param {Link} link */
function linkColour(colours, link) {
  return link === "bus" || link === "storage" ? colours.copies[Number(link === "storage")] : colours.select;
}

/** Room for a number of bytes at the right. @param {Measure} measure @param {Fonts} fonts */
function valueRoom(measure, fonts) {
  return Math.ceil(measure("99.9 MB", fonts.text)) + 10;
}

/**
 * Names of the links, their grounds and laws.
 * @param {CanvasRenderingContext2D} ctx
 * @param {CanvasRenderingContext2D} above the moving layer
 * @param {ReplayDocument} doc
 * @param {number} rank
 * @param {TrafficLayout} layout
 * @param {number} width
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
function drawLinks(ctx, above, { traffic, ranks }, rank, { linkTop, linkRow, linkLeft, linkMost }, width, colours, fonts) {
  const room = width - linkLeft - valueRoom((text, font) => measured(ctx, text, font), fonts);
  ctx.font = fonts.strong;
  ctx.fillStyle = colours.text;
  ctx.fillText(say("draw.traffic.rank_by_link", { rank: ranks[rank] }), 0, linkTop - 6);
  for (const [k, { link, law_bytes: law }] of traffic.links.entries()) {
    const y = linkTop + k * linkRow;
    ctx.font = fonts.text;
    ctx.fillStyle = colours.muted;
    ctx.fillText(LINK_NAMES[link], 0, y + linkRow / 2 + fonts.size * 0.33);
    ctx.fillStyle = colours.track;
    ctx.fillRect(linkLeft, y + 2, room, linkRow - 5);
    const bytes = law[rank];
    if (bytes !== null) {
      above.fillStyle = colours.card;
      above.fillRect(Math.round(linkLeft + (bytes / linkMost) * room) - 2, y, 5, linkRow - 1);
      above.fillStyle = colours.strong;
      above.fillRect(Math.round(linkLeft + (bytes / linkMost) * room) - 1, y, 3, linkRow - 1);
    }
  }
}

/** @param {CanvasRenderingContext2D} ctx @param {string} text @param {string} font */
function measured(ctx, text, font) {
  ctx.font = font;
  return ctx.measureText(text).width;
}

/**
 * 0, Psi, 2 Psi, 3 Psi, or fewer of many; without Psi only the ends.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Traffic} traffic
 * @param {TrafficLayout} layout
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
function drawAxis(ctx, { psi_bytes, law }, { left, width, top, bottom, most }, colours, fonts) {
  const y = bottom + fonts.size + 4;
  ctx.font = fonts.text;
  /** @param {string} text @param {number} bytes */
  const tick = (text, bytes) => {
    const x = Math.round(left + (bytes / most) * width);
    ctx.fillStyle = colours.line;
    ctx.fillRect(x, top, 1, bottom - top + 4);
    ctx.fillStyle = colours.muted;
    ctx.textAlign = bytes === 0 ? "left" : bytes === most ? "right" : "center";
    ctx.fillText(text, bytes === most ? x + fonts.size * 0.6 : x, y);
    ctx.textAlign = "left";
  };
  tick("0", 0);
  if (law !== "" && psi_bytes > 0) {
    const step = Math.max(1, niceStep(most / psi_bytes, width / (3.2 * fonts.size)));
    for (let k = step; k * psi_bytes <= most * 1.0001; k += step) {
      tick(k === 1 ? "Ψ" : `${k}Ψ`, k * psi_bytes);
    }
  } else if (most > 1) {
    tick(formatBytes(most), most);
  }
}

/**
 * The law, and left of it what its Psi is.
 * @param {CanvasRenderingContext2D} ctx
 * @param {ReplayDocument} doc
 * @param {TrafficLayout} layout
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {Measure} measure
 */
function drawLaw(ctx, { traffic: { law, law_bytes }, run }, { left, width, top, bottom, most }, colours, fonts, measure) {
  const textWidth = measure(law, fonts.strong);
  const x = Math.round(left + ((law_bytes ?? 0) / most) * width);
  ctx.strokeStyle = colours.strong;
  ctx.lineWidth = 2;
  ctx.setLineDash([5, 4]);
  ctx.beginPath();
  ctx.moveTo(x, top - 4);
  ctx.lineTo(x, bottom + 2);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.font = fonts.strong;
  ctx.fillStyle = colours.text;
  ctx.textAlign = "center";
  const centre = Math.max(left + textWidth / 2, Math.min(left + width + fonts.size - textWidth / 2, x));
  ctx.fillText(law, centre, top - 8);
  ctx.textAlign = "left";
  const room = centre - textWidth / 2 - fonts.size;
  const num_parameters = formatCount(run.num_parameters);
  const psi = [say("draw.traffic.psi", { num_parameters }), `Ψ: ${num_parameters}`].find((text) => measure(text, fonts.text) < room);
  if (run.num_parameters > 0 && psi) {
    ctx.font = fonts.text;
    ctx.fillStyle = colours.muted;
    ctx.fillText(psi, 0, top - 8);
  }
}
