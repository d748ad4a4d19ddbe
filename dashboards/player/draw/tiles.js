// A shard in the magnifier: its hue identifies it, its texture shows its state, its letter both.

import { inkOn, mix, shardColour, shardEdge } from "#player/colours.js";
import { CODE, paintSlice } from "#player/draw/cells.js";
import { letterOf } from "#player/lens/letters.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { Box } from "#player/draw/layout.js" */
/** @import { Fonts, Measure } from "#player/draw/text.js" */
/** @import { Tile } from "#player/lens/magnify.js" */

const RADIUS = 6;
/** States other than kept: their ground is the card's or pale, so their letter needs no plate. */
const PALE = new Set(/** @type {number[]} */ ([CODE.ABSENT, CODE.STALE]));

/**
 * A tile without shards in flight: these are drawn as they arrive.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Palette} colours
 * @param {number} scale device pixels in a CSS pixel
 * @param {Tile} tile
 * @param {Box} box
 * @param {Fonts} fonts
 * @param {Measure} measure
 */
export function drawTile(ctx, colours, scale, tile, box, fonts, measure) {
  const { hue, code } = tile;
  const { x, y, w, h } = box;
  const [fill, edge] = [shardColour(colours, hue), shardEdge(colours, hue)];
  const look = { edge, isAbsent: code === CODE.ABSENT, isComing: code === CODE.ARRIVING };
  drawFrame(ctx, colours, box, look, () => {
    ctx.globalAlpha = tile.isAll ? 1 : 0.45;
    if (!look.isAbsent && !look.isComing) {
      paintSlice(ctx, colours, scale, code, fill, edge, x, y, w, h);
    }
  });
  if (tile.isFreed && !look.isAbsent && w >= 8) {
    drawCross(ctx, colours, box);
  }
  if (w >= 14 && h >= 14 && code !== CODE.ARRIVING) {
    drawLetter(ctx, colours, tile, box, fonts, measure);
  }
}

/**
 * A card with a rim: thin where nothing is, dashed where something comes.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Palette} colours
 * @param {Box} box
 * @param {{edge: string, isAbsent: boolean, isComing: boolean}} look
 * @param {() => void} fill within the rim
 */
export function drawFrame(ctx, colours, { x, y, w, h }, { edge, isAbsent, isComing }, fill) {
  const radius = Math.min(RADIUS, w / 4);
  ctx.save();
  ctx.beginPath();
  ctx.roundRect(x, y, w, h, radius);
  ctx.clip();
  ctx.fillStyle = colours.card;
  ctx.fillRect(x, y, w, h);
  fill();
  ctx.restore();
  ctx.strokeStyle = isAbsent ? colours.wait : edge;
  ctx.lineWidth = isAbsent ? 1 : 2;
  ctx.setLineDash(isComing ? [5, 3] : []);
  ctx.beginPath();
  ctx.roundRect(x + 1, y + 1, Math.max(1, w - 2), Math.max(1, h - 2), radius);
  ctx.stroke();
  ctx.setLineDash([]);
}

/**
 * A shard in flight, and its letter.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Palette} colours
 * @param {number} scale
 * @param {Tile} tile
 * @param {Box} box
 * @param {number} part of it that is here
 * @param {Fonts} fonts
 * @param {Measure} measure
 */
export function drawArriving(ctx, colours, scale, tile, box, part, fonts, measure) {
  const { x, y, w, h } = box;
  const [fill, edge] = [shardColour(colours, tile.hue), shardEdge(colours, tile.hue)];
  const come = Math.round((h - 4) * part);
  if (come > 0) {
    paintSlice(ctx, colours, scale, tile.becomes, fill, edge, x + 2, y + h - 2 - come, w - 4, come);
  }
  if (w >= 14 && h >= 14) {
    drawLetter(ctx, colours, tile, box, fonts, measure);
  }
}

/**
 * A letter in the middle, on a plate if the tile is not a plain colour; below it the ranks in its sum.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Palette} colours
 * @param {Tile} tile
 * @param {Box} box
 * @param {Fonts} fonts
 * @param {Measure} measure
 */
function drawLetter(ctx, colours, tile, { x, y, w, h }, fonts, measure) {
  const { shard, hue, code, sum, sign } = tile;
  const text = sign ?? letterOf(shard);
  const size = Math.round(Math.max(fonts.size * 0.85, Math.min(h * 0.42, w * 0.6 / text.length, 44)));
  const font = fonts.strong.replace(/\d+px/, `${size}px`);
  const isSolid = tile.isAll && (code === CODE.KEPT || code === CODE.REDUCED);
  const hasSum = sum !== "" && w >= measure(sum, fonts.smallStrong) + 4 && h >= size + fonts.smallSize + 12;
  const middle = y + h / 2 - (hasSum ? fonts.smallSize * 0.62 : 0);
  const wide = measure(text, font);
  ctx.textAlign = "center";
  if (!isSolid && !PALE.has(code)) {
    plate(ctx, colours, x + w / 2, middle, wide + 8, size + 2);
  }
  ctx.font = font;
  ctx.fillStyle = isSolid ? inkOn(shardColour(colours, hue)) : code === CODE.ABSENT ? colours.muted : letterInk(colours, hue);
  ctx.fillText(text, x + w / 2, middle + size * 0.35);
  if (hasSum) {
    const below = middle + size * 0.5 + fonts.smallSize * 0.62 + 3;
    plate(ctx, colours, x + w / 2, below, measure(sum, fonts.smallStrong) + 6, fonts.smallSize + 3);
    ctx.font = fonts.smallStrong;
    ctx.fillStyle = colours.text;
    ctx.fillText(sum, x + w / 2, below + fonts.smallSize * 0.36);
  }
  ctx.textAlign = "left";
}

/** A shard's hue, dark or light enough to be read on a card. @param {Palette} colours @param {number} hue */
function letterInk(colours, hue) {
  return mix(shardEdge(colours, hue), colours.text, 0.45);
}

/** @param {CanvasRenderingContext2D} ctx @param {Palette} colours @param {number} x of its middle
 *  @param {number} y of its middle @param {number} w @param {number} h */
function plate(ctx, colours, x, y, w, h) {
  ctx.fillStyle = colours.card;
  ctx.beginPath();
  ctx.roundRect(x - w / 2, y - h / 2, w, h, 4);
  ctx.fill();
}

/** It is given back. @param {CanvasRenderingContext2D} ctx @param {Palette} colours @param {Box} box */
function drawCross(ctx, colours, { x, y, w, h }) {
  for (const [colour, width] of /** @type {const} */ ([[colours.card, 6], [colours.text, 3]])) {
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.lineCap = "round";
    ctx.beginPath();
    ctx.moveTo(x + 4, y + 4);
    ctx.lineTo(x + w - 4, y + h - 4);
    ctx.moveTo(x + w - 4, y + 4);
    ctx.lineTo(x + 4, y + h - 4);
    ctx.stroke();
  }
  ctx.lineCap = "butt";
}
