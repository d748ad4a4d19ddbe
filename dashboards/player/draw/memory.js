// Memory of the selected rank: areas by role over time, the law's line, the peak.

import { palette } from "#player/colours.js";
import { drawAreas, drawLawLine, drawPeak, peakPoint, drawScale, fillOf } from "#player/draw/areas.js";
import { Cursor, Layer, watch } from "#player/draw/layer.js";
import { localTime } from "#player/draw/moment.js";
import { legendEntries, stackOf } from "#player/draw/stack.js";
import { fontsFor, measurer } from "#player/draw/text.js";

/** @import { Palette, Theme } from "#player/colours.js" */
/** @import { Plot } from "#player/draw/areas.js" */
/** @import { View } from "#player/draw/layer.js" */
/** @import { Fonts } from "#player/draw/text.js" */
/** @import { Scene } from "#player/scene.d.ts" */

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
    const most = Math.max(memory.peak_bytes, doc.memory.law_bytes ?? 0) * 1.06;
    const roles = doc.memory.roles.map((role, i) => ({
      role,
      most: memory.bytes[i].reduce((most, bytes) => Math.max(most, bytes), 0),
    }));
    const legendTop = this.drawLegend(roles, memory.peak_bytes, theme, colours, fonts);
    const left = Math.ceil(this.measure("MB", fonts.text)) + 14;
    const plot = {
      left,
      width: width - left - 4,
      top: fonts.size + 4,
      bottom: legendTop - 12,
      most: most || 1,
      duration: Math.max(1, doc.timeline.duration_ns),
    };
    this.plot = plot;
    drawScale(ctx, plot, colours, fonts);
    const stack = stackOf(memory, plot.duration, plot.width);
    drawAreas(layer, stack, doc.memory.roles, plot, theme, colours);
    const peak = peakPoint(memory, plot);
    const taken = drawLawLine(ctx, doc.memory, plot, peak, colours, fonts, this.measure);
    drawPeak(ctx, peak, plot, taken, colours, fonts, this.measure);
    this.cursor.fit(0, plot.bottom, colours.strong, 2);
  }

  /**
   * Roles in the order in which they lie on each other; returns where it begins. Where it would
   * take the room of the areas, the optimizer's states are one entry, then small roles have none.
   * @param {readonly {role: string, most: number}[]} roles and the most that each ever has
   * @param {number} peak
   * @param {Theme} theme
   * @param {Palette} colours
   * @param {Fonts} fonts
   */
  drawLegend(roles, peak, theme, colours, fonts) {
    const { ctx, scale } = this.layer;
    const { size } = fonts;
    const swatch = Math.round(size * 0.8);
    const line = size + 8;
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
    const fits = (tried) => ((tried.at(-1)?.row ?? 0) + 1) * line <= Math.max(line, this.height * 0.36);
    let places = place(false, 0);
    for (const share of [0, 0.03, 0.08, 0.15]) {
      if (!fits(places)) {
        places = place(true, share * peak);
      }
    }
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

  resize() {
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
  }

  destroy() {
    this.layer.remove();
    this.cursor.remove();
  }
}
