// Memory of the selected rank: areas by role over time, the law's line, the peak.

import { palette, roleColour } from "#player/colours.js";
import { hatchFill } from "#player/draw/cells.js";
import { Cursor, Layer, watch } from "#player/draw/layer.js";
import { localTime } from "#player/draw/moment.js";
import { isGathered, stackOf } from "#player/draw/stack.js";
import { fontsFor, measurer, niceStep } from "#player/draw/text.js";
import { formatBytes } from "#player/format.js";

/** @import { Palette, Theme } from "#player/colours.js" */
/** @import { View } from "#player/draw/layer.js" */
/** @import { Stack } from "#player/draw/stack.js" */
/** @import { Fonts } from "#player/draw/text.js" */
/** @import { Scene } from "#player/scene.d.ts" */
/** @import { Memory, RankMemory } from "#player/types.d.ts" */

/** @typedef {{left: number, width: number, top: number, bottom: number, most: number, duration: number}} Plot */

/** @implements {View} */
export class MemoryView {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
    this.layer = new Layer(host);
    this.cursor = new Cursor(host);
    this.measure = measurer(this.layer.ctx);
    this.changed = watch();
    /** @type {Plot | null} */
    this.plot = null;
    this.width = 0;
    this.height = 0;
    this.resize();
  }

  /** @param {Scene} scene */
  render(scene) {
    const { model, theme, present, rank, position, tween } = scene;
    const { width, height } = this;
    if (this.changed(model, theme, present, rank, width, height, devicePixelRatio)) {
      this.draw(scene);
    }
    const { plot } = this;
    if (plot) {
      const part = Math.min(1, localTime(model, rank, position, tween) / plot.duration);
      this.cursor.move(plot.left + part * plot.width);
    } else {
      this.cursor.move(0, false);
    }
  }

  /** @param {Scene} scene */
  draw({ document: doc, theme, present, rank }) {
    const { layer, width, height } = this;
    const { ctx } = layer;
    const colours = palette(theme);
    const fonts = fontsFor(present);
    layer.fit(width, height);
    this.plot = null;
    const memory = doc.memory?.ranks[rank];
    if (!doc.memory || !memory || memory.times_ns.length === 0) {
      ctx.font = fonts.text;
      ctx.fillStyle = colours.muted;
      ctx.textAlign = "center";
      ctx.fillText("memory was not recorded", width / 2, height / 2);
      ctx.textAlign = "left";
      return;
    }
    const used = doc.memory.roles.map((_, i) => memory.bytes[i].some((bytes) => bytes > 0));
    const legendTop = this.drawLegend(doc.memory.roles.filter((_, i) => used[i]), theme, colours, fonts);
    const left = Math.ceil(this.measure("888", fonts.text)) + 12;
    const most = Math.max(memory.peak_bytes, doc.memory.law_bytes ?? 0) * 1.12;
    const plot = {
      left,
      width: width - left - 4,
      top: 4,
      bottom: legendTop - 12,
      most: most || 1,
      duration: Math.max(1, doc.timeline.duration_ns),
    };
    this.plot = plot;
    drawScale(ctx, plot, colours, fonts);
    const stack = stackOf(memory, plot.duration, plot.width);
    drawAreas(layer, stack, doc.memory.roles, plot, theme, colours);
    drawLawLine(ctx, doc.memory, plot, colours, fonts, this.measure);
    drawPeak(ctx, memory, plot, colours, fonts, this.measure);
    this.cursor.fit(plot.top, plot.bottom - plot.top, colours.strong, 2);
  }

  /**
   * Roles in the order in which they lie on each other; returns where it begins.
   * @param {readonly string[]} roles
   * @param {Theme} theme
   * @param {Palette} colours
   * @param {Fonts} fonts
   */
  drawLegend(roles, theme, colours, fonts) {
    const { ctx, scale } = this.layer;
    const { size } = fonts;
    const swatch = Math.round(size * 0.8);
    const line = size + 8;
    /** @type {{role: string, x: number, row: number}[]} */
    const places = [];
    let x = 0;
    let row = 0;
    for (const role of roles) {
      const w = swatch + 6 + this.measure(role, fonts.text) + 16;
      if (x > 0 && x + w - 16 > this.width) {
        x = 0;
        row += 1;
      }
      places.push({ role, x, row });
      x += w;
    }
    const top = this.height - (row + 1) * line;
    ctx.font = fonts.text;
    for (const place of places) {
      const y = top + place.row * line;
      ctx.fillStyle = fillOf(this.layer.ctx, place.role, theme, colours, scale);
      ctx.fillRect(place.x, y + (line - swatch) / 2, swatch, swatch);
      ctx.fillStyle = colours.muted;
      ctx.fillText(place.role, place.x + swatch + 6, y + line / 2 + size * 0.36);
    }
    return top;
  }

  resize() {
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
  }

  destroy() {
    this.layer.remove();
    this.cursor.remove();
  }
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} role
 * @param {Theme} theme
 * @param {Palette} colours
 * @param {number} scale
 */
function fillOf(ctx, role, theme, colours, scale) {
  const fill = roleColour(theme, role);
  return isGathered(role) ? hatchFill(ctx, fill, colours.card, scale) : fill;
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {Plot} plot
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
function drawScale(ctx, { left, width, top, bottom, most }, colours, fonts) {
  const step = niceStep(most / 1e6, Math.max(2, Math.floor((bottom - top) / (fonts.size * 3.2))));
  const places = Math.max(0, -Math.floor(Math.log10(step)));
  ctx.font = fonts.text;
  ctx.textAlign = "right";
  for (let mb = 0; mb * 1e6 <= most; mb += step) {
    const y = Math.round(bottom - ((mb * 1e6) / most) * (bottom - top));
    ctx.fillStyle = colours.line;
    ctx.fillRect(left, y, width, 1);
    ctx.fillStyle = colours.muted;
    const text = mb.toFixed(places);
    ctx.fillText(text, left - 8, Math.max(fonts.size * 0.75, y + fonts.size * 0.36));
  }
  ctx.textAlign = "left";
  ctx.fillText("MB", left + 4, top + fonts.size * 0.8);
}

/**
 * @param {Layer} layer
 * @param {Stack} stack
 * @param {readonly string[]} roles
 * @param {Plot} plot
 * @param {Theme} theme
 * @param {Palette} colours
 */
function drawAreas({ ctx, scale }, { times, tops }, roles, plot, theme, colours) {
  const { left, width, top, bottom, most, duration } = plot;
  const xs = times.map((ns) => left + Math.min(1, Math.max(0, ns / duration)) * width);
  /** @param {number} bytes */
  const y = (bytes) => bottom - (bytes / most) * (bottom - top);
  const end = left + width;
  for (let role = 0; role < roles.length; role += 1) {
    const upper = tops[role];
    const lower = role > 0 ? tops[role - 1] : null;
    ctx.beginPath();
    for (let i = 0; i < xs.length; i += 1) {
      const right = i + 1 < xs.length ? xs[i + 1] : end;
      ctx.lineTo(xs[i], y(upper[i]));
      ctx.lineTo(right, y(upper[i]));
    }
    for (let i = xs.length - 1; i >= 0; i -= 1) {
      const right = i + 1 < xs.length ? xs[i + 1] : end;
      ctx.lineTo(right, y(lower ? lower[i] : 0));
      ctx.lineTo(xs[i], y(lower ? lower[i] : 0));
    }
    ctx.closePath();
    ctx.fillStyle = fillOf(ctx, roles[role], theme, colours, scale);
    ctx.fill();
  }
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {Memory} memory
 * @param {Plot} plot
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {import("#player/draw/text.js").Measure} measure
 */
function drawLawLine(ctx, { law, law_bytes }, { left, width, top, bottom, most }, colours, fonts, measure) {
  if (law === "" || law_bytes === null) {
    return;
  }
  const y = Math.round(bottom - (law_bytes / most) * (bottom - top));
  ctx.strokeStyle = colours.strong;
  ctx.lineWidth = 2;
  ctx.setLineDash([6, 4]);
  ctx.beginPath();
  ctx.moveTo(left, y);
  ctx.lineTo(left + width, y);
  ctx.stroke();
  ctx.setLineDash([]);
  const text = `${law} = ${formatBytes(law_bytes)}`;
  tag(ctx, text, left + width - measure(text, fonts.strong) - 8, y - fonts.size * 0.95, colours, fonts, measure);
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {RankMemory} memory
 * @param {Plot} plot
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {import("#player/draw/text.js").Measure} measure
 */
function drawPeak(ctx, { peak_ns, peak_bytes }, { left, width, top, bottom, most, duration }, colours, fonts, measure) {
  const x = left + Math.min(1, peak_ns / duration) * width;
  const y = bottom - (peak_bytes / most) * (bottom - top);
  ctx.fillStyle = colours.strong;
  ctx.strokeStyle = colours.card;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.arc(x, y, 5, 0, 7);
  ctx.stroke();
  ctx.fill();
  const text = "peak";
  const w = measure(text, fonts.strong);
  const beside = x + 12 + w < left + width ? x + 12 : x - 12 - w;
  tag(ctx, text, beside, Math.max(top + fonts.size * 0.7, y), colours, fonts, measure);
}

/**
 * A word on a ground of its own, so that it is readable on any area.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} text
 * @param {number} x
 * @param {number} y of its middle
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {import("#player/draw/text.js").Measure} measure
 */
function tag(ctx, text, x, y, colours, fonts, measure) {
  ctx.font = fonts.strong;
  ctx.fillStyle = colours.card;
  ctx.globalAlpha = 0.88;
  ctx.beginPath();
  ctx.roundRect(x - 5, y - fonts.size * 0.68, measure(text, fonts.strong) + 10, fonts.size * 1.36, 4);
  ctx.fill();
  ctx.globalAlpha = 1;
  ctx.fillStyle = colours.text;
  ctx.fillText(text, x, y + fonts.size * 0.35);
}
