// The contents of a rank with unknown units: a bar of bytes by role.

import { roleColour } from "#player/colours.js";
import { localTime } from "#player/draw/moment.js";
import { shorten } from "#player/draw/text.js";
import { formatBytes } from "#player/format.js";
import { say } from "#player/words.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { Fonts, Measure } from "#player/draw/text.js" */
/** @import { Scene } from "#player/scene.d.ts" */

/**
 * Bytes by role of a rank at a step; null where its memory was not recorded. Pure.
 * @param {Pick<Scene, "model" | "document" | "position">} scene
 * @param {number} rank position in `ranks`
 * @returns {{ role: string, bytes: number }[] | null}
 */
export function rolesHeld({ model, document: doc, position }, rank) {
  const own = doc.memory?.ranks[rank];
  if (!doc.memory || !own) {
    return null;
  }
  const time = localTime(model, rank, position, 0);
  const at = Math.max(0, own.times_ns.findLastIndex((one) => one <= time));
  const held = doc.memory.roles.map((role, i) => ({ role, bytes: own.bytes[i][at] ?? 0 }));
  return held.filter(({ bytes }) => bytes > 0);
}

/**
 * The bar, and its parts in words below.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Scene} scene
 * @param {number} rank
 * @param {{ left: number, right: number, top: number, height: number, textY: number }} place
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {Measure} measure
 */
export function drawRoles(ctx, scene, rank, place, colours, fonts, measure) {
  const { left, right, top, height, textY } = place;
  const held = rolesHeld(scene, rank);
  const peaks = scene.document.memory?.ranks.map((one) => one?.peak_bytes ?? 0) ?? [];
  ctx.font = fonts.text;
  if (!held) {
    ctx.fillStyle = colours.muted;
    ctx.fillText(shorten(say("shared.no_states"), right - left, (t) => measure(t, fonts.text)), left, textY);
    return;
  }
  ctx.fillStyle = colours.track;
  ctx.fillRect(left, top, right - left, height);
  let x = left;
  for (const { role, bytes } of held) {
    const width = ((right - left) * bytes) / Math.max(1, ...peaks);
    ctx.fillStyle = roleColour(scene.theme, role);
    ctx.fillRect(x, top, width, height);
    x += width;
  }
  const each = held.map(({ role, bytes }) => `${role} ${formatBytes(bytes)}`).join(" · ");
  const all = say("draw.roles.holds", { value: formatBytes(held.reduce((sum, { bytes }) => sum + bytes, 0)) });
  const said = measure(each, fonts.text) <= right - left ? each : all;
  ctx.fillStyle = colours.text;
  ctx.fillText(shorten(said, right - left, (t) => measure(t, fonts.text)), left, textY);
}
