// One rank's part of the magnifier: its name and action, its rows of tiles, a line of words.

import { shardColour } from "#player/colours.js";
import { CODE } from "#player/draw/cells.js";
import { drawStrip, largeTiles } from "#player/draw/fewtiles.js";
import { tileBox } from "#player/draw/magnifierlayout.js";
import { drawMicroBatch } from "#player/draw/microbatch.js";
import { shorten, wrap } from "#player/draw/text.js";
import { drawTile } from "#player/draw/tiles.js";
import { besides } from "#player/lens/words.js";
import { nameThatFits } from "#player/naming/names.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { Layer } from "#player/draw/layer.js" */
/** @import { Box } from "#player/draw/layout.js" */
/** @import { Lens, MagnifierLayout } from "#player/draw/magnifierlayout.js" */
/** @import { Moving } from "#player/draw/packets.js" */
/** @import { Fonts, Measure } from "#player/draw/text.js" */
/** @import { Magnified, Tile } from "#player/lens/magnify.js" */
/** @import { Scene } from "#player/scene.d.ts" */

/** @typedef {{tile: Tile, box: Box, packet: Moving | null}} Coming a tile that is on its way */

/**
 * The first line of a rank: its name and what it does beside, and whether there is room for both.
 * @param {Scene} scene
 * @param {Lens} lens
 * @param {Fonts} fonts
 * @param {Measure} measure
 */
export function headOf({ model, document: doc, position, hops, isOver }, { rank, x, w }, fonts, measure) {
  const left = x + fonts.size * 0.84 + 6;
  const name = nameThatFits(doc, rank, x + w - left, (text) => measure(text, fonts.strong));
  const after = left + measure(name, fonts.strong);
  const says = isOver ? "" : besides(model, position, rank, hops);
  return { name, says, left, after, fits: measure(says, fonts.text) <= x + w - after - 6 };
}

/**
 * @param {Layer} layer
 * @param {Scene} scene
 * @param {Lens} lens
 * @param {{magnified: Magnified, layout: MagnifierLayout, packets: readonly Moving[], isBrief: boolean}} shown
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {Measure} measure
 * @returns {Coming[]} the tiles that move
 */
export function drawLens({ ctx, scale }, scene, lens, shown, colours, fonts, measure) {
  const { model, document: doc, rank: selected } = scene;
  const { packets } = shown;
  const { tiles, words, rows: shownRows } = shown.magnified;
  const { rank, x, w, nameY, rows, wordsY } = lens;
  const { lines, isFolded } = shown.layout;
  /** @type {Coming[]} */
  const coming = [];
  const radius = fonts.size * 0.42;
  ctx.fillStyle = shardColour(colours, doc.ranks[rank]);
  ctx.beginPath();
  ctx.arc(x + radius, nameY - fonts.size * 0.35, radius, 0, 7);
  ctx.fill();
  ctx.fillStyle = colours.text;
  ctx.font = fonts.strong;
  const { name, says, left, after } = headOf(scene, lens, fonts, measure);
  ctx.fillText(name, left, nameY);
  if (rank === selected && model.numRanks > 1) {
    ctx.fillRect(left, nameY + 4, after - left, 2);
  }
  const brief = says.split(" ")[0];
  const word = shown.isBrief ? (measure(brief, fonts.text) <= x + w - after - 6 ? brief : "") : says;
  ctx.font = fonts.text;
  ctx.fillStyle = colours.muted;
  ctx.fillText(word, after + 10, nameY);
  for (const [row, box] of rows.entries()) {
    const own = tiles[rank][row] ?? [];
    const { isStacked, isFlight } = shownRows[row];
    if (isFlight) {
      own.forEach((tile) => drawMicroBatch(ctx, colours, tile, tileBox(box, tile.shard, own.length), fonts));
      continue;
    }
    if (isFolded) {
      drawStrip(ctx, colours, scale, own, box);
    }
    const large = isFolded
      ? largeTiles(own, doc.ranks[rank], rank, packets, box)
      : own.map((tile) => ({ tile, box: tileBox(box, tile.shard, own.length, isStacked) }));
    for (const { tile, box: place } of large) {
      drawTile(ctx, colours, scale, tile, place, fonts, measure);
      if (tile.code === CODE.ARRIVING) {
        const packet = packets.find(({ to, shards }) => to === rank && shards.includes(tile.shard));
        coming.push({ tile, box: place, packet: packet ?? null });
      }
    }
  }
  ctx.font = fonts.text;
  ctx.fillStyle = colours.text;
  const room = w + 10;
  for (const [i, line] of (Number.isNaN(wordsY) ? [] : wrap(words[rank], room, lines, (text) => measure(text, fonts.text))).entries()) {
    ctx.fillText(line, x, wordsY + i * fonts.size * 1.3);
  }
  return coming;
}

/** What the rows are, left of them. @param {CanvasRenderingContext2D} ctx @param {Magnified} magnified @param {MagnifierLayout} layout
 *  @param {Palette} colours @param {Fonts} fonts */
export function drawRowNames(ctx, { rows }, { lenses, gutter }, colours, fonts) {
  ctx.font = fonts.text;
  ctx.fillStyle = colours.muted;
  ctx.textAlign = "right";
  const left = Math.min(...lenses.map(({ x }) => x));
  for (const lens of lenses.filter(({ x }) => x === left)) {
    for (const [row, { label }] of rows.entries()) {
      const box = lens.rows[row];
      ctx.fillText(shorten(label, gutter, (text) => ctx.measureText(text).width), left - 10, box.y + box.h / 2 + fonts.size * 0.36);
    }
  }
  ctx.textAlign = "left";
}
