// Draws a rank's part of a unit, shard by shard. The hue identifies the shard, the texture its state: solid
// kept, hatched gathered, dashed arriving, dotted not yet reduced.

import { contrast, mix, shardColour, shardEdge } from "#player/colours.js";
import { textures } from "#player/draw/textures.js";

/** @import { Palette } from "#player/colours.js" */

export const CODE = /** @type {const} */ ({
  ABSENT: 0,
  KEPT: 1,
  GATHERED: 2,
  ARRIVING: 3,
  PARTIAL: 4,
  SUMMED: 5,
  REDUCED: 6,
  STALE: 7,
});

/** In fewer pixels, runs would exaggerate. */
const NARROWEST_RUNS = 4;
const DASHES = [3, 2];
/** @type {number[]} */
const NO_DASHES = [];

/**
 * One slice: a shard of a unit. The ground is left to the caller.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Palette} colours
 * @param {number} scale device pixels in a CSS pixel
 * @param {number} code
 * @param {string} fill
 * @param {string} edge
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {number} h
 */
export function paintSlice(ctx, colours, scale, code, fill, edge, x, y, w, h) {
  switch (code) {
    case CODE.KEPT:
    case CODE.REDUCED:
      ctx.fillStyle = fill;
      ctx.fillRect(x, y, w, h);
      if (code === CODE.REDUCED && h >= 8) {
        const bar = Math.round(Math.max(3, Math.min(9, h * 0.1)));
        ctx.fillStyle = colours.card;
        ctx.fillRect(x, y + h - bar - 2, w, 2);
        ctx.fillStyle = colours.strong;
        ctx.fillRect(x, y + h - bar, w, bar);
      }
      if (w >= 5 && isFaint(fill, colours.card)) {
        frame(ctx, edge, x, y, w, h);
      }
      break;
    case CODE.GATHERED:
      ctx.fillStyle = textures.get(ctx, "hatch", fill, colours.card, scale);
      ctx.fillRect(x, y, w, h);
      if (w >= 5) {
        frame(ctx, edge, x, y, w, h);
      }
      break;
    case CODE.PARTIAL:
    case CODE.SUMMED: {
      const texture = code === CODE.PARTIAL ? "dots" : "dense";
      const ground = code === CODE.PARTIAL ? colours.card : tint(colours.card, fill, 0.5);
      ctx.fillStyle = textures.get(ctx, texture, edge, ground, scale);
      ctx.fillRect(x, y, w, h);
      if (w >= 5) {
        frame(ctx, edge, x, y, w, h);
      }
      break;
    }
    case CODE.ARRIVING:
      ctx.fillStyle = colours.card;
      ctx.fillRect(x, y, w, h);
      ctx.fillStyle = h >= 8 ? textures.get(ctx, "hatch", fill, colours.card, scale) : tint(colours.card, fill, 0.5);
      ctx.fillRect(x, y + h / 2, w, h / 2);
      ctx.setLineDash(DASHES);
      ctx.strokeStyle = edge;
      ctx.lineWidth = w >= 5 ? 1.5 : 1;
      ctx.strokeRect(x + 0.75, y + 0.75, Math.max(0.5, w - 1.5), h - 1.5);
      ctx.setLineDash(NO_DASHES);
      break;
    case CODE.STALE:
      ctx.fillStyle = tint(colours.card, fill, 0.25);
      ctx.fillRect(x, y, w, h);
      frame(ctx, edge, x, y, w, h);
      break;
    default:
  }
}

/** Whether a colour is lost on its ground without a frame; remembered.
 *  @param {string} fill @param {string} ground */
function isFaint(fill, ground) {
  const key = fill + ground;
  let faint = faints.get(key);
  if (faint === undefined) {
    faint = contrast(fill, ground) < 1.6;
    faints.set(key, faint);
  }
  return faint;
}

/** @type {Map<string, boolean>} */
const faints = new Map();

/** `mix`, remembered. @param {string} ground @param {string} fill @param {number} part */
function tint(ground, fill, part) {
  const key = ground + fill + part;
  let colour = tints.get(key);
  if (colour === undefined) {
    colour = mix(ground, fill, part);
    tints.set(key, colour);
  }
  return colour;
}

/** @type {Map<string, string>} */
const tints = new Map();

/** @param {CanvasRenderingContext2D} ctx @param {string} edge
 *  @param {number} x @param {number} y @param {number} w @param {number} h */
function frame(ctx, edge, x, y, w, h) {
  ctx.strokeStyle = edge;
  ctx.lineWidth = 1;
  ctx.strokeRect(x + 0.5, y + 0.5, Math.max(0.5, w - 1), Math.max(0.5, h - 1));
}

/**
 * A unit of a state of a rank: its ground and all its shards.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Palette} colours
 * @param {number} scale
 * @param {Uint8Array} cells
 * @param {number} first cell of shard 0
 * @param {number} numShards
 * @param {number} hue of shard 0
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {number} h
 */
export function paintUnit(ctx, colours, scale, cells, first, numShards, hue, x, y, w, h) {
  if (w < numShards) {
    paintRuns(ctx, colours, scale, cells, first, numShards, hue, x, y, w, h);
    return;
  }
  ctx.clearRect(x, y, w, h);
  ctx.fillStyle = colours.track;
  ctx.fillRect(x, y, w, h);
  for (let shard = 0; shard < numShards; shard += 1) {
    const code = cells[first + shard];
    if (code !== CODE.ABSENT) {
      const left = x + Math.round((w * shard) / numShards);
      const right = x + Math.round((w * (shard + 1)) / numShards);
      paintSlice(
        ctx, colours, scale, code, shardColour(colours, hue + shard), shardEdge(colours, hue + shard),
        left, y, right - left, h,
      );
    }
  }
}

/**
 * The same if a shard has no room: shards in the same state are one run, and kept ones are drawn last, so
 * that they are visible. A run of one shard has that shard's hue, and one of several none.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Palette} colours
 * @param {number} scale
 * @param {Uint8Array} cells
 * @param {number} first
 * @param {number} numShards
 * @param {number} hue of shard 0
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {number} h
 */
export function paintRuns(ctx, colours, scale, cells, first, numShards, hue, x, y, w, h) {
  ctx.clearRect(x, y, w, h);
  ctx.fillStyle = colours.track;
  ctx.fillRect(x, y, w, h);
  if (w < NARROWEST_RUNS) {
    paintDensity(ctx, colours, cells, first, numShards, hue, x, y, w, h);
    return;
  }
  const least = w >= 8 ? 2 : 1;
  for (let pass = 0; pass < 2; pass += 1) {
    for (let from = 0; from < numShards; ) {
      const code = cells[first + from];
      let to = from + 1;
      while (to < numShards && cells[first + to] === code) {
        to += 1;
      }
      const onTop = code === CODE.KEPT || code === CODE.REDUCED;
      if (code !== CODE.ABSENT && onTop === (pass === 1)) {
        const lone = to === from + 1 ? hue + from : -1;
        const width = Math.max(least, Math.round((w * (to - from)) / numShards));
        const left = Math.min(x + Math.round((w * from) / numShards), x + w - width);
        const fill = shardColour(colours, lone);
        paintSlice(ctx, colours, scale, code, fill, shardEdge(colours, lone), left, y, width, h);
      }
      from = to;
    }
  }
}

/**
 * A few pixels: darker for more shards.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Palette} colours
 * @param {Uint8Array} cells
 * @param {number} first
 * @param {number} numShards
 * @param {number} hue of shard 0
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {number} h
 */
function paintDensity(ctx, colours, cells, first, numShards, hue, x, y, w, h) {
  let held = 0;
  let last = 0;
  for (let shard = 0; shard < numShards; shard += 1) {
    const code = cells[first + shard];
    if (code !== CODE.ABSENT && code !== CODE.ARRIVING) {
      held += 1;
      last = shard;
    }
  }
  if (held > 0) {
    const lone = held === 1 ? hue + last : -1;
    ctx.fillStyle = tint(colours.track, shardColour(colours, lone), density(held, numShards));
    ctx.fillRect(x, y, w, h);
  }
}

/** How dark a share of a unit is: a little is seen, and only all of it is full. @param {number} held
 *  @param {number} numShards */
export function density(held, numShards) {
  return held === 0 ? 0 : 0.25 + 0.75 * (held / numShards);
}
