// The meaning of the cells' textures: those that occur in this document, as the stage draws them.

import { make } from "#player/dom.js";
import { palette } from "#player/colours.js";
import { CODE } from "#player/draw/cells.js";
import { legend } from "#player/draw/legend.js";
import { say } from "#player/words.js";

/** @import { Theme } from "#player/colours.js" */
/** @import { Model, Scene } from "#player/scene.d.ts" */

/** CSS pixels of a swatch at a text size of 15 px. */
export const SWATCH = { width: 20, height: 14 };

/** In as few words as the stage's head has room for; the tooltip has the full label. */
const SHORT = ["", say("legend.kept"), say("legend.gathered"), say("legend.arriving"), say("legend.local_gradient"), say("legend.partial_sum"), say("legend.reduced"), say("legend.old_value")];

/**
 * @param {HTMLElement} list
 * @param {readonly Model[]} models
 */
export function createLegend(list, models) {
  const entriesIn = legendOf(models);
  let shown = "";

  /** @param {Pick<Scene, "theme" | "present">} scene */
  return function update({ theme, present }) {
    const key = `${theme} ${present} ${devicePixelRatio}`;
    if (key === shown) {
      return;
    }
    shown = key;
    list.replaceChildren(...entriesIn(theme).map(item));
  };
}

/** @typedef {(ctx: CanvasRenderingContext2D, x: number, y: number, w: number, h: number) => void} Draw */
/** @typedef {{short: string, label: string, draw: Draw}} Entry */

/**
 * What occurs in some documents.
 * @param {readonly Model[]} models
 * @returns {(theme: Theme) => Entry[]}
 */
export function legendOf(models) {
  const seen = new Set(models.flatMap(({ initial, changeAfter }) => [...initial, ...changeAfter]));
  const ofModel = models.some(({ doc }) => doc.states.some(({ name }) => name === ""));
  /** @param {number} code @param {string} label */
  const wordsOf = (code, label) =>
    code === CODE.PARTIAL && !ofModel ? { short: say("legend.own_part"), label: say("legend.own_part") } : { short: SHORT[code] ?? label, label };
  const ways = WAYS.filter(({ occurs }) => models.some(occurs));
  return (theme) => [
    ...legend(theme)
      .filter(({ code }) => seen.has(code))
      .map(({ code, label, draw }) => ({ ...wordsOf(code, label), draw })),
    ...ways.map(({ draw, short, label }) => ({ short, label, draw: draw(theme) })),
  ];
}

/** @param {Entry} entry */
function item({ draw, short, label }) {
  const element = make("li", "", swatch(draw), short);
  element.title = label;
  return element;
}

/** What packets and their ways can be beside the usual.
 *  @type {readonly {short: string, label: string, occurs: (model: Model) => boolean,
 *                   draw: (theme: Theme) => Draw}[]} */
const WAYS = [
  {
    short: say("legend.across_nodes"),
    label: say("legend.from_one_node_to_another"),
    occurs: ({ doc }) => doc.run.ranks_per_node < doc.run.num_ranks,
    draw: (theme) => (ctx, x, y, w, h) => {
      ctx.strokeStyle = palette(theme).wait;
      ctx.lineWidth = 2.5;
      ctx.setLineDash([6, 3]);
      ctx.beginPath();
      ctx.moveTo(x, y + h / 2);
      ctx.lineTo(x + w, y + h / 2);
      ctx.stroke();
      ctx.setLineDash([]);
    },
  },
  {
    short: say("legend.quantized"),
    label: say("legend.quantized_for_its_way_as_much"),
    occurs: ({ doc }) => doc.collectives.some(({ bits }) => bits > 0),
    draw: (theme) => (ctx, x, y, w, h) => {
      ctx.fillStyle = palette(theme).unknown;
      ctx.fillRect(x + w / 2 - 4, y + h / 2 - 4, 8, 8);
    },
  },
];

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
