// The meaning of the stage's textures, with swatches for the page to draw.

import { palette, shardColour, shardEdge } from "#player/colours.js";
import { CODE, paintSlice } from "#player/draw/cells.js";
import { say } from "#player/words.js";

/** @import { Theme } from "#player/colours.js" */

/**
 * @typedef {object} LegendEntry
 * @property {number} code of `CellCode`
 * @property {string} label
 * @property {(ctx: CanvasRenderingContext2D, x: number, y: number, w: number, h: number) => void} draw
 *   in CSS pixels of a context that is scaled to the screen's
 */

const LABELS = /** @type {const} */ ([
  [CODE.KEPT, say("draw.legend.kept")],
  [CODE.GATHERED, say("draw.legend.gathered_freed_after_use")],
  [CODE.ARRIVING, say("draw.legend.arriving")],
  [CODE.PARTIAL, say("draw.legend.gradient_not_yet_reduced")],
  [CODE.SUMMED, say("draw.legend.partial_sum")],
  [CODE.REDUCED, say("draw.legend.reduced")],
  [CODE.STALE, say("draw.legend.old_value")],
]);

/** @param {Theme} theme @returns {LegendEntry[]} */
export function legend(theme) {
  const colours = palette(theme);
  return LABELS.map(([code, label]) => ({
    code,
    label,
    draw(ctx, x, y, w, h) {
      const scale = globalThis.devicePixelRatio || 1;
      ctx.fillStyle = colours.card;
      ctx.fillRect(x, y, w, h);
      paintSlice(ctx, colours, scale, code, shardColour(colours, 0), shardEdge(colours, 0), x, y, w, h);
    },
  }));
}
