// A micro-batch on a stage of a pipeline: outlined before it comes, half-filled on its way, filled while
// the stage holds it for backward, pale once its gradient went back. Its number says which; one that is
// computed in this beat has a thick rim.

import { inkOn } from "#player/colours.js";
import { drawFrame } from "#player/draw/tiles.js";
import { FLIGHT } from "#player/lens/flight.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { Box } from "#player/draw/layout.js" */
/** @import { Fonts } from "#player/draw/text.js" */
/** @import { Tile } from "#player/lens/magnify.js" */

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {Palette} colours
 * @param {Tile} tile
 * @param {Box} box
 * @param {Fonts} fonts
 */
export function drawMicroBatch(ctx, colours, { shard, code, isNow }, box, fonts) {
  const { x, y, w, h } = box;
  const fill = colours.phases.forward;
  const state = /** @type {number} */ (code);
  const look = { edge: fill, isAbsent: state === FLIGHT.NONE, isComing: state === FLIGHT.COMES };
  drawFrame(ctx, colours, box, look, () => {
    ctx.fillStyle = state === FLIGHT.DONE ? colours.track : fill;
    if (look.isComing) {
      ctx.fillRect(x, y + h * 0.72, w, h * 0.28);
    } else if (!look.isAbsent) {
      ctx.fillRect(x, y, w, h);
    }
  });
  if (isNow) {
    ctx.strokeStyle = colours.strong;
    ctx.lineWidth = 3;
    ctx.beginPath();
    ctx.roundRect(x - 1, y - 1, w + 2, h + 2, 6);
    ctx.stroke();
  }
  if (w >= 12 && h >= 14) {
    ctx.font = fonts.strong;
    ctx.textAlign = "center";
    ctx.fillStyle = state === FLIGHT.HERE ? inkOn(fill) : state === FLIGHT.NONE ? colours.muted : colours.text;
    ctx.fillText(String(shard + 1), x + w / 2, y + h / 2 + fonts.size * 0.36 - (state === FLIGHT.COMES ? h * 0.1 : 0));
    if (state === FLIGHT.DONE && h >= 2.4 * fonts.size) {
      ctx.fillText("✓", x + w / 2, y + h / 2 + fonts.size * 1.4);
    }
  }
  ctx.textAlign = "left";
}
