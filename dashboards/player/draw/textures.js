// Hatching, dots and rules, drawn once for each colour and pixel density: they distinguish states for viewers
// who do not see the hues. Hatching is used only for a held copy, ruled lines only for waiting.

import { mix } from "#player/colours.js";
import { Pen } from "#player/take/pen.js";
import { say } from "#player/words.js";

/** @import { Palette } from "#player/colours.js" */

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
    if (ctx instanceof Pen) {
      const tile = ctx.tile(`${texture} ${ink} ${ground}`, SIZES[texture], (on) => paintTile(on, texture, ink, ground));
      return /** @type {CanvasPattern} */ (/** @type {unknown} */ (tile));
    }
    const key = `${texture}${ink}${ground}${scale}`;
    let pattern = this.patterns.get(key);
    if (!pattern) {
      const made = ctx.createPattern(drawTile(texture, ink, ground, scale), "repeat");
      if (!made) {
        throw new Error(say("draw.textures.this_browser_draws_no_patterns"));
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
const SIZES = { hatch: 8, dots: 5, dense: 4, wait: 4 };

/** @param {Texture} texture @param {string} ink @param {string} ground @param {number} scale */
function drawTile(texture, ink, ground, scale) {
  const size = SIZES[texture];
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(size * scale);
  canvas.height = canvas.width;
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  ctx.scale(canvas.width / size, canvas.width / size);
  paintTile(ctx, texture, ink, ground);
  return canvas;
}

/** @param {CanvasRenderingContext2D} ctx @param {Texture} texture @param {string} ink @param {string} ground */
function paintTile(ctx, texture, ink, ground) {
  const size = SIZES[texture];
  ctx.fillStyle = ground;
  ctx.fillRect(0, 0, size, size);
  ctx.fillStyle = ink;
  ctx.strokeStyle = ink;
  if (texture === "wait") {
    ctx.fillRect(0, size / 2 - 0.6, size, 1.2);
  } else if (texture === "hatch") {
    ctx.lineWidth = 3.1;
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
}

export const textures = new Textures();

/**
 * Fill for a lane or a border that waits: ruled.
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
