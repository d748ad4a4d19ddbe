// What the textures of the cells mean: those that occur in this document, as the stage draws them.

import { make } from "#player/dom.js";
import { legend } from "#player/draw/legend.js";

/** @import { Model, Scene } from "#player/scene.d.ts" */

/** CSS pixels of a swatch at a text size of 15 px. */
const SWATCH = { width: 20, height: 14 };

/** In as few words as the stage's head has room for; the tooltip has the full label. */
const SHORT = ["", "kept", "gathered", "arriving", "own gradient", "sum so far", "reduced", "old value"];

/**
 * @param {HTMLElement} list
 * @param {readonly Model[]} models
 */
export function createLegend(list, models) {
  const seen = new Set(models.flatMap(({ initial, changeAfter }) => [...initial, ...changeAfter]));
  let shown = "";

  /** @param {Pick<Scene, "theme" | "present">} scene */
  return function update({ theme, present }) {
    const key = `${theme} ${present} ${devicePixelRatio}`;
    if (key === shown) {
      return;
    }
    shown = key;
    const entries = legend(theme).filter((entry) => seen.has(entry.code));
    list.replaceChildren(
      ...entries.map(({ code, label, draw }) => {
        const item = make("li", "", swatch(draw), SHORT[code] ?? label);
        item.title = label;
        return item;
      }),
    );
  };
}

/** @param {(ctx: CanvasRenderingContext2D, x: number, y: number, w: number, h: number) => void} draw */
export function swatch(draw) {
  const canvas = make("canvas", "swatch");
  canvas.setAttribute("aria-hidden", "true");
  canvas.width = SWATCH.width * devicePixelRatio;
  canvas.height = SWATCH.height * devicePixelRatio;
  const ctx = canvas.getContext("2d");
  ctx?.scale(devicePixelRatio, devicePixelRatio);
  if (ctx) {
    draw(ctx, 0, 0, SWATCH.width, SWATCH.height);
  }
  return canvas;
}
