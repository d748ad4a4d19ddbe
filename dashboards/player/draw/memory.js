// Memory of the selected rank: areas by role over time, the law's line, the peak.

import { palette } from "#player/colours.js";
import { drawAreas, drawLawLine, drawPeak, peakPoint, drawScale, fillOf } from "#player/draw/areas.js";
import { Cursor, Layer, watch } from "#player/draw/layer.js";
import { localTime } from "#player/draw/moment.js";
import { legendEntries, stackOf } from "#player/draw/stack.js";
import { fontsFor, measurer } from "#player/draw/text.js";
import { TIERS } from "#player/document.js";
import { formatBytes } from "#player/format.js";
import { lastAt } from "#player/frames.js";
import { layerAt } from "#player/naming/find.js";
import { nameArea } from "#player/naming/names.js";
import { named, say } from "#player/words.js";

/** @import { Palette, Theme } from "#player/colours.js" */
/** @import { Plot } from "#player/draw/areas.js" */
/** @import { View } from "#player/draw/layer.js" */
/** @import { Fonts, Measure } from "#player/draw/text.js" */
/** @import { Region } from "#player/regions.js" */
/** @import { Scene } from "#player/scene.d.ts" */
/** @import { Memory, RankMemory, Tier } from "#player/types.d.ts" */

/**
 * The contents of one tier.
 * @typedef {object} Strip
 * @property {Tier} tier
 * @property {string[]} roles
 * @property {number[][]} bytes by role, then by time
 * @property {number} most bytes at its upper end
 * @property {string} law
 * @property {number | null} law_bytes
 */

/**
 * A strip for each tier; all have one scale, so that heights are bytes everywhere. Pure.
 * @param {Memory} memory
 * @param {RankMemory} own of a rank
 * @returns {Strip[]}
 */
export function stripsOf({ roles, tiers, laws, law, law_bytes: bytes }, own) {
  const found = TIERS.filter((tier) => tier === "device" || tiers.includes(tier)).map((tier) => {
    const rows = [...tiers.keys()].filter((i) => tiers[i] === tier);
    const totals = own.times_ns.map((_, t) => rows.reduce((sum, i) => sum + own.bytes[i][t], 0));
    const ofTier = laws.find((one) => one.tier === tier);
    const isDevice = tier === "device";
    const strip = {
      tier,
      roles: rows.map((i) => roles[i]),
      bytes: rows.map((i) => own.bytes[i]),
      law: ofTier?.law ?? (isDevice ? law : ""),
      law_bytes: ofTier?.law_bytes ?? (isDevice ? bytes : null),
    };
    const top = Math.max(isDevice ? own.peak_bytes : 0, ...(isDevice ? [] : totals), strip.law_bytes ?? 0);
    return { ...strip, most: top * 1.06 };
  });
  return found.filter(({ tier, most }) => tier === "device" || most > 0);
}

/**
 * The label of a strip: its tier, and its law.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Strip} strip
 * @param {Plot} plot
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {Measure} measure
 */
function drawStripHead(ctx, { tier, law, law_bytes: bytes }, { left, width, top }, colours, fonts, measure) {
  ctx.font = fonts.strong;
  ctx.fillStyle = colours.text;
  ctx.fillText(named(tier), left, top - 4);
  if (law === "" || !bytes) {
    return;
  }
  const text = `${law} = ${formatBytes(bytes)}`;
  const x = left + width - measure(text, fonts.text);
  ctx.font = fonts.text;
  ctx.fillText(text, x, top - 4);
  ctx.strokeStyle = colours.strong;
  ctx.lineWidth = 2;
  ctx.setLineDash([6, 4]);
  ctx.beginPath();
  ctx.moveTo(x - 32, top - fonts.size * 0.6);
  ctx.lineTo(x - 8, top - fonts.size * 0.6);
  ctx.stroke();
  ctx.setLineDash([]);
}

/** The tier left of its strip, if there is no room above it.
 *  @param {CanvasRenderingContext2D} ctx @param {Strip} strip @param {Plot} plot @param {Palette} colours @param {Fonts} fonts */
function drawStripName(ctx, { tier }, { left, width, top, bottom }, colours, fonts) {
  ctx.fillStyle = colours.line;
  ctx.fillRect(left, bottom, width, 1);
  ctx.font = fonts.text;
  ctx.fillStyle = colours.muted;
  ctx.textAlign = "right";
  ctx.fillText(named(tier), left - 8, Math.round((top + bottom) / 2 + fonts.size * 0.36));
  ctx.textAlign = "left";
}

/** Strips that would be lower on average have their names beside them. */
const LEAST_STRIP = 16;
const TIGHT = 6;

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
    /** @type {{strip: Strip, place: Plot}[]} by tier, where its areas lie */
    this.parts = [];
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
    this.parts = [];
    const memory = doc.memory?.ranks[rank];
    if (!doc.memory || !memory || memory.times_ns.length === 0) {
      ctx.font = fonts.text;
      ctx.fillStyle = colours.muted;
      ctx.textAlign = "center";
      ctx.fillText(say("draw.memory.memory_was_not_recorded"), width / 2, height / 2);
      ctx.textAlign = "left";
      return;
    }
    const strips = stripsOf(doc.memory, memory);
    const most = strips.reduce((sum, strip) => sum + strip.most, 0);
    const roles = [...new Set(doc.memory.roles)].map((role) => ({
      role,
      most: Math.max(...memory.bytes.filter((_, i) => doc.memory?.roles[i] === role).map((row) => Math.max(...row))),
    }));
    const legendTop = this.drawLegend(roles, strips.length > 1, memory.peak_bytes, theme, colours, fonts);
    const head = strips.length > 1 ? fonts.size + 8 : 0;
    const isTight = legendTop - 12 - head * strips.length < LEAST_STRIP * strips.length;
    const names = isTight ? strips.map(({ tier }) => tier) : ["MB", "000"];
    const left = Math.ceil(Math.max(...names.map((name) => this.measure(name, fonts.text)))) + 14;
    const plot = {
      left,
      width: width - left - 4,
      top: isTight ? 4 : fonts.size + (strips.length > 1 ? 8 : 4),
      bottom: legendTop - 12,
      most: most || 1,
      duration: Math.max(1, doc.timeline.duration_ns),
    };
    this.plot = plot;
    const gap = isTight ? TIGHT : head;
    const room = plot.bottom - plot.top - gap * (strips.length - 1);
    let top = plot.top;
    for (const strip of strips) {
      const own = { ...plot, most: strip.most || 1, top, bottom: Math.round(top + (room * strip.most) / (most || 1)) };
      this.parts.push({ strip, place: own });
      if (isTight) {
        drawStripName(ctx, strip, own, colours, fonts);
      } else {
        if (strips.length > 1) {
          drawStripHead(ctx, strip, own, colours, fonts, this.measure);
        }
        drawScale(ctx, own, colours, fonts, strips.length > 1);
      }
      const stack = stackOf({ ...memory, bytes: strip.bytes }, own.duration, own.width);
      drawAreas(layer, stack, strip.roles, own, theme, colours);
      const isDevice = strip.tier === "device";
      const peak = isDevice ? peakPoint(memory, own) : { x: -99, y: -99 };
      const taken = drawLawLine(ctx, strip, own, peak, colours, fonts, strips.length > 1 ? null : this.measure);
      if (isDevice && !isTight) {
        drawPeak(ctx, peak, own, taken, colours, fonts, this.measure);
      }
      top = own.bottom + gap;
    }
    this.cursor.fit(0, plot.bottom, colours.cursor, 3);
  }

  /**
   * Roles in the order in which they lie on each other; returns where it begins. Where it would
   * take the room of the areas, the optimizer states are one entry, then small roles have none, at last
   * those that are left: pointed at, each area says its name.
   * @param {readonly {role: string, most: number}[]} roles and the most that each ever has
   * @param {boolean} isBrief there are several tiers to show
   * @param {number} peak
   * @param {Theme} theme
   * @param {Palette} colours
   * @param {Fonts} fonts
   */
  drawLegend(roles, isBrief, peak, theme, colours, fonts) {
    const { ctx, scale } = this.layer;
    const { size } = fonts;
    const swatch = Math.round(size * 0.8);
    const line = size + 8;
    const mostHigh = Math.max(line, this.height * 0.36);
    /** @param {boolean} brief @param {number} least */
    const place = (brief, least) => {
      let x = 0;
      let row = 0;
      const shown = roles.filter((one) => one.most > least).map((one) => one.role);
      return legendEntries(shown, brief).map((entry) => {
        const before = entry.roles.length * swatch + 6;
        const w = before + this.measure(entry.label, fonts.text);
        if (x > 0 && x + w > this.width) {
          x = 0;
          row += 1;
        }
        const at = { ...entry, x, row, textX: x + before };
        x += w + 16;
        return at;
      });
    };
    /** @param {ReturnType<typeof place>} tried */
    const fits = (tried) => ((tried.at(-1)?.row ?? 0) + 1) * line <= mostHigh;
    let places = place(isBrief, isBrief ? 0.02 * peak : 0);
    for (const share of [isBrief ? 0.02 : 0, 0.03, 0.08, 0.15]) {
      if (!fits(places)) {
        places = place(true, share * peak);
      }
    }
    places = places.filter(({ row }) => (row + 1) * line <= mostHigh);
    const top = this.height - ((places.at(-1)?.row ?? 0) + 1) * line;
    ctx.font = fonts.text;
    for (const { label, roles: parts, x, row, textX } of places) {
      const y = top + row * line;
      for (const [i, role] of parts.entries()) {
        ctx.fillStyle = fillOf(ctx, role, theme, colours, scale);
        ctx.fillRect(x + i * swatch, y + (line - swatch) / 2, swatch, swatch);
      }
      ctx.fillStyle = colours.muted;
      ctx.fillText(label, textX, y + line / 2 + size * 0.36);
    }
    return top;
  }

  /** @param {number} x @param {number} y @returns {Region | null} */
  find(x, y) {
    const { scene, plot } = this;
    const own = scene?.document.memory?.ranks[scene.rank];
    const part = this.parts.find(({ place }) => y >= place.top && y <= place.bottom);
    if (!scene || !plot || !own || !part || x < plot.left || x > plot.left + plot.width) {
      return null;
    }
    const { strip, place } = part;
    const { top, bottom, most } = place;
    const sample = lastAt(own.times_ns, ((x - plot.left) / plot.width) * plot.duration);
    const found = layerAt(strip.bytes, sample, ((bottom - y) / (bottom - top)) * most);
    const named = found && nameArea(scene.model, scene.rank, own.bytes.indexOf(strip.bytes[found.row]), sample);
    if (!found || !named) {
      return null;
    }
    /** @param {number} bytes */
    const height = (bytes) => (bytes / most) * (bottom - top);
    const h = height(strip.bytes[found.row][sample]);
    return { box: { x: x - 4, y: bottom - height(found.below) - h, w: 8, h }, named };
  }

  /** Each role at the moment that is shown, and each at the peak. @returns {[number, number][]} */
  spots() {
    const { scene, plot } = this;
    const own = scene?.document.memory?.ranks[scene.rank];
    if (!scene || !plot || !own) {
      return [];
    }
    const now = localTime(scene.model, scene.rank, scene.now.position, scene.now.tween);
    return [now, own.peak_ns].flatMap((ns) => {
      const sample = lastAt(own.times_ns, ns);
      const x = plot.left + Math.min(1, ns / plot.duration) * plot.width;
      return this.parts.flatMap(({ strip, place: { top, bottom, most } }) => {
        let below = 0;
        return strip.bytes.flatMap((row) => {
          const middle = below + row[sample] / 2;
          below += row[sample];
          return row[sample] > 0 ? [/** @type {[number, number]} */ ([x, bottom - (middle / most) * (bottom - top)])] : [];
        });
      });
    });
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
