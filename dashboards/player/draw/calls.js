// Calls in the magnifier without recorded messages.

import { say } from "#player/words.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { MagnifierLayout } from "#player/draw/magnifierlayout.js" */
/** @import { Fonts } from "#player/draw/text.js" */
/** @import { Scene } from "#player/scene.d.ts" */

/**
 * A call without recorded messages: its ranks and its operation. No packets are invented.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Scene} scene
 * @param {string} call
 * @param {MagnifierLayout} layout
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {number} wide
 */
export function drawCall(ctx, { document: doc, position }, call, { lenses, packetHeight }, colours, fonts, wide) {
  const step = doc.steps[position];
  const part = lenses.filter(({ rank }) => step.ranks.includes(rank));
  for (const line of new Set(part.map((lens) => lens.line))) {
    const own = part.filter((lens) => lens.line === line);
    const centres = own.map(({ x, w }) => x + w / 2);
    const bottom = own[0].nameY - fonts.size;
    const y = bottom - packetHeight / 2 - 2;
    const [left, right] = [Math.min(...centres), Math.max(...centres)];
    ctx.strokeStyle = colours.muted;
    ctx.lineWidth = 2;
    ctx.beginPath();
    ctx.moveTo(left, y);
    ctx.lineTo(right, y);
    for (const x of centres) {
      ctx.moveTo(x, y);
      ctx.lineTo(x, bottom);
    }
    ctx.stroke();
    const says = say("draw.calls.its_messages_were_not_recorded", { call });
    const half = Math.max(wide, ctx.measureText(says).width) / 2 + 10;
    const middle = (left + right) / 2;
    ctx.fillStyle = colours.inset;
    ctx.fillRect(middle - half, y - fonts.size * 0.7, 2 * half, fonts.size * 1.4);
    ctx.font = fonts.text;
    ctx.textAlign = "center";
    ctx.fillStyle = colours.text;
    ctx.fillText(says, middle, y + fonts.size * 0.36);
    ctx.textAlign = "left";
  }
}
