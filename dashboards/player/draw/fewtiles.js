// A rank's row of the magnifier with too many shards for letters: a strip of all of them, and in large those
// that it owns, sends and receives.

import { paintRuns } from "#player/draw/cells.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { Box } from "#player/draw/layout.js" */
/** @import { Packet, Tile } from "#player/lens/magnify.js" */

const MOST_LARGE = 3;
const STRIP = 0.58;

/**
 * The tiles that are shown large, each with its place right of the strip: own, sent, received.
 * @param {readonly Tile[]} tiles of all shards
 * @param {number} own
 * @param {number} rank
 * @param {readonly Packet[]} packets
 * @param {Box} row
 * @returns {{tile: Tile, box: Box}[]}
 */
export function largeTiles(tiles, own, rank, packets, row) {
  const gone = packets.filter(({ from }) => from === rank).flatMap(({ shards }) => shards);
  const come = packets.filter(({ to }) => to === rank).flatMap(({ shards }) => shards);
  const shown = [...new Set([own, ...gone, ...come])].filter((shard) => tiles[shard]).slice(0, MOST_LARGE);
  const left = row.x + row.w * STRIP + 10;
  const w = Math.floor((row.w * (1 - STRIP) - 10) / MOST_LARGE);
  return shown.map((shard, i) => ({ tile: tiles[shard], box: { x: left + i * w, y: row.y, w: w - 4, h: row.h } }));
}

/**
 * All shards in a strip, with those in the same state as one run.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Palette} colours
 * @param {number} scale
 * @param {readonly Tile[]} tiles
 * @param {Box} row
 */
export function drawStrip(ctx, colours, scale, tiles, { x, y, w, h }) {
  const codes = Uint8Array.from(tiles, ({ code }) => code);
  paintRuns(ctx, colours, scale, codes, 0, codes.length, tiles[0]?.hue ?? 0, x, y, Math.round(w * STRIP), h);
}
