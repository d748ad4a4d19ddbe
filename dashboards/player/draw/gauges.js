// Rows of bars on a common scale: a name, its parts, the mark of its law, a number.

import { palette } from "#player/colours.js";
import { Layer, watch } from "#player/draw/layer.js";
import { fontsFor, measurer, shorten } from "#player/draw/text.js";

/** @import { Palette, Theme } from "#player/colours.js" */
/** @import { Fonts, Measure } from "#player/draw/text.js" */

/**
 * A row.
 * @typedef {object} Gauge
 * @property {string} name
 * @property {readonly {kind: string, amount: number}[]} parts
 * @property {number | null} mark where the law is
 * @property {string} value
 */

/** What a part is filled with.
 *  @typedef {(ctx: CanvasRenderingContext2D, kind: string, colours: Palette, scale: number)
 *            => string | CanvasPattern} FillOf */

/**
 * @typedef {object} GaugeLayout
 * @property {number} left of the bars
 * @property {number} width of the scale
 * @property {number} rowHeight
 * @property {number} bar
 * @property {number} top
 */

const MOST_ROW = 46;
const MOST_BAR = 26;
/** Names take no more of the width. */
const MOST_NAME = 0.36;

/**
 * Where everything lies. Pure.
 * @param {number} width
 * @param {number} height
 * @param {readonly string[]} names
 * @param {string} widest the widest value there can be
 * @param {Fonts} fonts
 * @param {Measure} measure
 * @returns {GaugeLayout}
 */
export function layoutGauges(width, height, names, widest, fonts, measure) {
  const name = Math.max(0, ...names.map((one) => measure(one, fonts.text)));
  const left = Math.ceil(Math.min(name, width * MOST_NAME)) + 10;
  const right = Math.ceil(measure(widest, fonts.text)) + 12;
  const rowHeight = Math.min(MOST_ROW, Math.floor(height / Math.max(1, names.length)));
  return {
    left,
    width: Math.max(10, width - left - right),
    rowHeight,
    bar: Math.max(4, Math.min(MOST_BAR, Math.round(rowHeight * 0.62))),
    top: Math.max(0, Math.round((height - rowHeight * names.length) / 2)),
  };
}

/**
 * Where the parts of a row begin and end on the scale. Pure.
 * @param {Gauge} gauge
 * @param {number} most at the right end
 * @param {number} width
 * @returns {{kind: string, x: number, w: number}[]}
 */
export function placeParts({ parts }, most, width) {
  let before = 0;
  return parts.flatMap(({ kind, amount }) => {
    const x = (before / most) * width;
    before += amount;
    const w = (amount / most) * width;
    return w > 0 ? [{ kind, x, w }] : [];
  });
}

export class Gauges {
  /** @param {HTMLElement} host @param {FillOf} fillOf */
  constructor(host, fillOf) {
    this.host = host;
    this.fillOf = fillOf;
    this.layer = new Layer(host);
    this.measure = measurer(this.layer.ctx);
    this.changed = watch();
  }

  /**
   * @param {readonly Gauge[]} gauges
   * @param {number} most at the right end of the scale
   * @param {string} widest the widest value there can be
   * @param {{theme: Theme, present: boolean}} look
   */
  render(gauges, most, widest, { theme, present }) {
    const { clientWidth: width, clientHeight: height } = this.host;
    const state = JSON.stringify([gauges, most, widest]);
    if (!this.changed(state, theme, present, width, height, devicePixelRatio)) {
      return;
    }
    const { ctx, scale } = this.layer;
    const colours = palette(theme);
    const fonts = fontsFor(present);
    const names = gauges.map(({ name }) => name);
    const { left, width: room, rowHeight, bar, top } = layoutGauges(width, height, names, widest, fonts, this.measure);
    this.layer.fit(width, height);
    for (const [row, gauge] of gauges.entries()) {
      const y = top + row * rowHeight + Math.round((rowHeight - bar) / 2);
      const baseline = Math.round(y + bar / 2 + fonts.size * 0.36);
      ctx.font = fonts.text;
      ctx.fillStyle = colours.text;
      ctx.fillText(shorten(gauge.name, left - 10, (text) => this.measure(text, fonts.text)), 0, baseline);
      ctx.fillStyle = colours.track;
      ctx.fillRect(left, y, room, bar);
      for (const { kind, x, w } of placeParts(gauge, most, room)) {
        ctx.fillStyle = this.fillOf(ctx, kind, colours, scale);
        ctx.fillRect(left + x, y, Math.max(0.5, w - (w > 3 ? 0.75 : 0)), bar);
      }
      if (gauge.mark !== null) {
        drawMark(ctx, left + (gauge.mark / most) * room, y, bar, colours);
      }
      ctx.fillStyle = colours.text;
      ctx.textAlign = "right";
      ctx.fillText(gauge.value, width, baseline);
      ctx.textAlign = "left";
    }
  }

  remove() {
    this.layer.remove();
  }
}

/**
 * Where the law is: a line with a ground of its own, so that it is seen on any part.
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x
 * @param {number} y
 * @param {number} h
 * @param {Palette} colours
 */
function drawMark(ctx, x, y, h, colours) {
  ctx.fillStyle = colours.card;
  ctx.fillRect(Math.round(x) - 2, y - 4, 5, h + 8);
  ctx.fillStyle = colours.strong;
  ctx.fillRect(Math.round(x) - 1, y - 4, 3, h + 8);
}
