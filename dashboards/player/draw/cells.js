// Draws what a rank has of a unit, shard by shard. The hue says which shard, the texture says how
// it is held: solid kept, hatched gathered, dashed arriving, dotted not yet reduced.

import { contrast, mix, shardColour, shardEdge } from "#player/colours.js";

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

/** So that a single shard among many is still seen. */
const NARROWEST_RUN = 2;
const DASHES = [3, 2];
/** @type {number[]} */
const NO_DASHES = [];

/** @typedef {"hatch" | "dots" | "dense" | "wait"} Texture */

/** Textures, drawn once for a colour and a pixel density. */
class Textures {
  constructor() {
    /** @type {Map<string, CanvasPattern>} */
    this.patterns = new Map();
  }

  /**
   * @param {CanvasRenderingContext2D} ctx
   * @param {Texture} texture
   * @param {string} ink
   * @param {string} ground
   * @param {number} scale device pixels in a CSS pixel
   */
  get(ctx, texture, ink, ground, scale) {
    const key = `${texture}${ink}${ground}${scale}`;
    let pattern = this.patterns.get(key);
    if (!pattern) {
      const made = ctx.createPattern(drawTile(texture, ink, ground, scale), "repeat");
      if (!made) {
        throw new Error("this browser draws no patterns");
      }
      pattern = made;
      const tile = Math.round(SIZES[texture] * scale);
      pattern.setTransform(new DOMMatrix().scale(SIZES[texture] / tile));
      this.patterns.set(key, pattern);
    }
    return pattern;
  }
}

/** @type {Readonly<Record<Texture, number>>} */
const SIZES = { hatch: 8, dots: 5, dense: 4, wait: 7 };

/** @param {Texture} texture @param {string} ink @param {string} ground @param {number} scale */
function drawTile(texture, ink, ground, scale) {
  const size = SIZES[texture];
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(size * scale);
  canvas.height = canvas.width;
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  ctx.scale(canvas.width / size, canvas.width / size);
  ctx.fillStyle = ground;
  ctx.fillRect(0, 0, size, size);
  ctx.fillStyle = ink;
  ctx.strokeStyle = ink;
  if (texture === "hatch" || texture === "wait") {
    ctx.lineWidth = texture === "hatch" ? 3.1 : 1.4;
    ctx.beginPath();
    for (const shift of [-size, 0, size]) {
      ctx.moveTo(shift - 2, size + 2);
      ctx.lineTo(shift + size + 2, -2);
    }
    ctx.stroke();
  } else {
    const radius = texture === "dots" ? 1.25 : 1.45;
    ctx.beginPath();
    ctx.arc(size / 2, size / 2, radius, 0, 7);
    ctx.fill();
  }
  return canvas;
}

const textures = new Textures();

/**
 * Fill for a lane or a border that stands still.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Palette} colours
 * @param {number} scale
 */
export function waitFill(ctx, colours, scale) {
  return textures.get(ctx, "wait", colours.wait, mix(colours.card, colours.wait, 0.18), scale);
}

/**
 * Hatching of any colour.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} ink
 * @param {string} ground
 * @param {number} scale
 */
export function hatchFill(ctx, ink, ground, scale) {
  return textures.get(ctx, "hatch", ink, ground, scale);
}

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
        ctx.fillStyle = colours.strong;
        ctx.fillRect(x, y + h - 2, w, 2);
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
      const ground = code === CODE.PARTIAL ? colours.card : tint(colours.card, fill, 0.3);
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
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {number} h
 */
export function paintUnit(ctx, colours, scale, cells, first, numShards, x, y, w, h) {
  if (w < numShards) {
    paintRuns(ctx, colours, scale, cells, first, numShards, x, y, w, h);
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
        ctx, colours, scale, code, shardColour(colours, shard), shardEdge(colours, shard),
        left, y, right - left, h,
      );
    }
  }
}

/**
 * The same where a shard has no room: shards that are held alike are one run, and what is kept
 * comes last, so that it is seen. The hue says what it is: blue values, orange gradients.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Palette} colours
 * @param {number} scale
 * @param {Uint8Array} cells
 * @param {number} first
 * @param {number} numShards
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {number} h
 */
export function paintRuns(ctx, colours, scale, cells, first, numShards, x, y, w, h) {
  ctx.clearRect(x, y, w, h);
  ctx.fillStyle = colours.track;
  ctx.fillRect(x, y, w, h);
  for (let pass = 0; pass < 2; pass += 1) {
    for (let from = 0; from < numShards; ) {
      const code = cells[first + from];
      let to = from + 1;
      while (to < numShards && cells[first + to] === code) {
        to += 1;
      }
      const onTop = code === CODE.KEPT || code === CODE.REDUCED;
      if (code !== CODE.ABSENT && onTop === (pass === 1)) {
        const hue = runHue(code);
        const width = Math.max(NARROWEST_RUN, Math.round((w * (to - from)) / numShards));
        const left = Math.min(x + Math.round((w * from) / numShards), x + w - width);
        const fill = shardColour(colours, hue);
        paintSlice(ctx, colours, scale, code, fill, shardEdge(colours, hue), left, y, width, h);
      }
      from = to;
    }
  }
}

/** Whose hue stands for what is held: of values the first, of gradients the second. @param {number} code */
export function runHue(code) {
  return code === CODE.PARTIAL || code === CODE.SUMMED || code === CODE.REDUCED ? 1 : 0;
}
