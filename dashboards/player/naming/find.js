// The object at a point of a drawing, by its layout. Pure.

import { laneHeight, laneY } from "#player/draw/lanes.js";

/** @import { Lanes, TimeWindow } from "#player/draw/lanes.js" */
/** @import { Box, Column } from "#player/draw/layout.js" */

/** A bar that is thinner is pointed at all the same. */
const NEAR = 3;

/**
 * A shard of a unit of a state, and its place.
 * @param {{left: number, columns: readonly Column[], bands: readonly {y: number, h: number}[]}} place
 * @param {number} numShards
 * @param {number} x
 * @param {number} y
 * @returns {{state: number, unit: number, shard: number, box: Box} | null}
 */
export function cellAt({ left, columns, bands }, numShards, x, y) {
  const state = bands.findIndex((band) => y >= band.y - 1 && y <= band.y + band.h + 1);
  const unit = columns.findIndex((column) => x >= left + column.x && x <= left + column.x + column.w);
  if (state < 0 || unit < 0) {
    return null;
  }
  const column = columns[unit];
  const part = (x - left - column.x) / column.w;
  const shard = Math.max(0, Math.min(numShards - 1, Math.floor(part * numShards)));
  const width = column.w / numShards;
  const box = { x: left + column.x + shard * width, y: bands[state].y, w: width, h: bands[state].h };
  return { state, unit, shard, box };
}

/**
 * The bar at a point: where its numbers begin in `bars`; of several the shortest.
 * @param {readonly number[]} bars
 * @param {Lanes} lanes
 * @param {TimeWindow} shown
 * @param {number} x
 * @param {number} y
 * @returns {{at: number, box: Box} | null}
 */
export function barAt(bars, lanes, shown, x, y) {
  const row = lanes.first + Math.floor(y / lanes.rowHeight);
  let best = -1;
  for (let at = 0; at < bars.length; at += 7) {
    const lane = bars[at + 1];
    if (bars[at] !== row) {
      continue;
    }
    const top = laneY(lanes, row, lane);
    const isNear = shown.x(bars[at + 4], lanes) - NEAR <= x && shown.x(bars[at + 5], lanes) + NEAR >= x;
    const isShorter = best < 0 || bars[at + 5] - bars[at + 4] < bars[best + 5] - bars[best + 4];
    if (isNear && isShorter && y >= top && y <= top + laneHeight(lanes, lane)) {
      best = at;
    }
  }
  return best < 0 ? null : { at: best, box: boxOfBar(bars, best, lanes, shown) };
}

/** Where a bar is drawn. @param {readonly number[]} bars @param {number} at @param {Lanes} lanes
 *  @param {TimeWindow} shown @returns {Box} */
export function boxOfBar(bars, at, lanes, shown) {
  const [rank, lane] = [bars[at], bars[at + 1]];
  const left = Math.max(lanes.left, shown.x(bars[at + 4], lanes));
  const right = Math.min(lanes.left + lanes.width, shown.x(bars[at + 5], lanes));
  return { x: left, y: laneY(lanes, rank, lane), w: Math.max(2, right - left), h: laneHeight(lanes, lane) };
}

/**
 * Which of several rows that lie on each other a height is in: the first that it does not exceed.
 * @param {readonly (readonly number[])[]} rows
 * @param {number} sample
 * @param {number} height
 * @returns {{row: number, below: number} | null}
 */
export function layerAt(rows, sample, height) {
  let below = 0;
  for (const [row, values] of rows.entries()) {
    if (values[sample] > 0 && height <= below + values[sample]) {
      return { row, below };
    }
    below += values[sample];
  }
  return null;
}
