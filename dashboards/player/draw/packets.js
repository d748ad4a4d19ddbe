// Packets of the magnifier and the ways that they go.

import { inkOn, shardColour } from "#player/colours.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { Way } from "#player/draw/magnifierlayout.js" */
/** @import { Fonts } from "#player/draw/text.js" */
/** @import { Packet } from "#player/lens/magnify.js" */

/** With more packets than this, there is no room for their labels. */
export const MOST_LABELS = 16;
/** How ways between nodes are dashed; those within a node are not. */
const CROSSING = [9, 6];

/** @typedef {Packet & {way: Way, crosses: boolean, rest: number, width: number, share: number}} Moving */

/** @param {CanvasRenderingContext2D} ctx @param {readonly Moving[]} packets @param {Palette} colours */
export function drawWays(ctx, packets, colours) {
  for (const { way, crosses, to } of packets) {
    ctx.strokeStyle = colours.muted;
    ctx.lineWidth = packets.length > MOST_LABELS ? 1 : 2;
    ctx.setLineDash(crosses ? CROSSING : []);
    ctx.beginPath();
    ctx.moveTo(way[0], way[1]);
    ctx.bezierCurveTo(way[2], way[3], way[4], way[5], way[6], way[7]);
    ctx.stroke();
    ctx.setLineDash([]);
    if (to >= 0 && packets.length <= MOST_LABELS) {
      drawHead(ctx, way, colours);
    }
  }
}

/** An arrow's head at the end of a way. @param {CanvasRenderingContext2D} ctx @param {Way} way
 *  @param {Palette} colours */
function drawHead(ctx, way, colours) {
  ctx.save();
  ctx.translate(way[6], way[7]);
  ctx.rotate(Math.atan2(way[7] - way[5], way[6] - way[4]));
  ctx.fillStyle = colours.muted;
  ctx.beginPath();
  ctx.moveTo(3, 0);
  ctx.lineTo(-9, -5.5);
  ctx.lineTo(-9, 5.5);
  ctx.fill();
  ctx.restore();
}

/** Room for the hues of a packet beside its text: of several shards, or of quantized elements.
 *  @param {readonly number[]} shards @param {number} share @param {Fonts} fonts */
export function signWidth(shards, share, { size }) {
  return share < 1 || shards.length > 1 ? Math.max(1, Math.min(MOST_SIGNS, shards.length)) * (size * 0.7 + 2) + 4 : 0;
}

const MOST_SIGNS = 4;

/**
 * What is written on a packet: its sender and receiver where that leaves its way to be seen, its size
 * and sum where they leave its neighbours to be seen, and the letters of its shards in any case.
 * @param {{text: string, letters: string}} packet
 * @param {string} ends
 * @param {number} rank how wide a rank is
 * @param {number} pitch from one rank to the next
 * @param {(text: string) => number} widthOf a packet with this text
 */
export function label({ text, letters }, ends, rank, pitch, widthOf) {
  if (widthOf(ends + text) <= 0.75 * rank) {
    return ends + text;
  }
  return [text, letters].find((one) => one && widthOf(one) <= pitch - 6) ?? (letters.split("(")[0] || text);
}

/**
 * A packet with what it carries. One of several shards has their hues beside its text; so has one of
 * quantized elements, as small as they are.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Moving} packet
 * @param {{x: number, y: number}} at
 * @param {number} h
 * @param {boolean} labelled
 * @param {number} width of the magnifier
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
export function drawPacket(ctx, packet, at, h, labelled, width, colours, fonts) {
  const { shard, shards, text, share } = packet;
  const fill = shardColour(colours, shard);
  const w = labelled ? packet.width : 10;
  const x = Math.max(w / 2 + 3, Math.min(width - w / 2 - 3, at.x));
  const { y } = at;
  const signs = labelled ? signWidth(shards, share, fonts) : 0;
  ctx.strokeStyle = signs > 0 ? (shards.length > 1 ? colours.muted : fill) : colours.inset;
  ctx.lineWidth = signs > 0 ? 2 : 3;
  ctx.fillStyle = signs > 0 ? colours.card : fill;
  ctx.beginPath();
  ctx.roundRect(x - w / 2, y - h / 2, w, h, 6);
  ctx.stroke();
  ctx.fill();
  const side = Math.max(5, fonts.size * 0.7 * Math.sqrt(share));
  for (const [i, one] of (signs > 0 ? shards : []).slice(0, MOST_SIGNS).entries()) {
    ctx.fillStyle = shardColour(colours, one);
    ctx.fillRect(x - w / 2 + 6 + i * (fonts.size * 0.7 + 2), y - side / 2, side, side);
  }
  if (labelled) {
    ctx.font = fonts.monoStrong;
    ctx.textAlign = "center";
    ctx.fillStyle = signs > 0 ? colours.text : inkOn(fill);
    ctx.fillText(text, x + signs / 2, y + fonts.size * 0.36);
  }
}
