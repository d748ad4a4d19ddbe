// A rank's copies between its tiers, in the magnifier: down or up from the row of one tier to that of
// the other. Pure.

import { tileBox } from "#player/draw/magnifierlayout.js";
import { formatBytes } from "#player/format.js";

/** @import { MagnifierLayout, Way } from "#player/draw/magnifierlayout.js" */
/** @import { Magnified, Packet } from "#player/lens/magnify.js" */
/** @import { ReplayDocument } from "#player/types.d.ts" */

const ARRIVING = 3;

/**
 * @param {ReplayDocument} doc
 * @param {number} position
 * @param {Magnified} magnified
 * @param {MagnifierLayout} layout
 * @returns {(Packet & {way: Way})[]}
 */
export function tierPackets(doc, position, { rows, tiles }, layout) {
  const { copies, origin, target } = doc.steps[position];
  /** @param {string} tier */
  const rowOf = (tier) => rows.findIndex(({ states }) => doc.states[states[0]]?.tier === tier);
  const [from, to] = [rowOf(origin), rowOf(target)];
  /** @type {(Packet & {way: Way})[]} */
  const packets = [];
  for (let i = 0; i < copies.length; i += 4) {
    const [rank, bytes, start_ns, end_ns] = copies.slice(i, i + 4);
    const lens = layout.lenses[layout.at.get(rank) ?? -1];
    if (!lens || lens.rows.length === 0) {
      continue;
    }
    const come = tiles[rank][to]?.filter(({ code }) => code === ARRIVING).map(({ shard }) => shard) ?? [];
    const shards = come.length > 0 ? come : [doc.ranks[rank]];
    const first = tileBox(lens.rows[0], Math.min(...shards), doc.num_shards);
    const last = tileBox(lens.rows[0], Math.max(...shards), doc.num_shards);
    const x = (first.x + last.x + last.w) / 2;
    /** @param {number} row @param {boolean} isBegin */
    const height = (row, isBegin) => {
      const box = lens.rows[row];
      const isDown = to > from || to < 0;
      return box ? box.y + box.h * (isBegin === isDown ? 0.85 : 0.15) : isDown ? lens.bottom : lens.top;
    };
    const [y0, y1] = [height(from, true), height(to, false)];
    packets.push({
      from: rank, to: rank, shard: shards.length === 1 ? shards[0] : -1, shards, bytes, start_ns, end_ns,
      letters: "", text: formatBytes(bytes), way: [x, y0, x, y0, x, y1, x, y1],
    });
  }
  return packets;
}
