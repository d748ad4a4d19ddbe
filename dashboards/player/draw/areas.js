// Draws a rank's memory: the scale, areas on each other, the law's line and the peak.

import { roleColour } from "#player/colours.js";
import { isGathered } from "#player/draw/stack.js";
import { niceStep } from "#player/draw/text.js";
import { hatchFill } from "#player/draw/textures.js";
import { formatBytes } from "#player/format.js";
import { say } from "#player/words.js";

/** @import { Palette, Theme } from "#player/colours.js" */
/** @import { Layer } from "#player/draw/layer.js" */
/** @import { Box } from "#player/draw/layout.js" */
/** @import { Stack } from "#player/draw/stack.js" */
/** @import { Fonts, Measure } from "#player/draw/text.js" */
/** @import { Memory, RankMemory } from "#player/types.d.ts" */

/** @typedef {{left: number, width: number, top: number, bottom: number, most: number, duration: number}} Plot */

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} role
 * @param {Theme} theme
 * @param {Palette} colours
 * @param {number} scale
 */
export function fillOf(ctx, role, theme, colours, scale) {
  const fill = roleColour(theme, role);
  return isGathered(role) ? hatchFill(ctx, fill, colours.card, scale) : fill;
}

const SCALES = [{ name: "B", bytes: 1 }, { name: "kB", bytes: 1e3 }, { name: "MB", bytes: 1e6 }, { name: "GB", bytes: 1e9 }, { name: "TB", bytes: 1e12 }];

/** The unit of a scale: its numbers have at most three digits. @param {number} most bytes */
export function scaleOf(most) {
  return SCALES.findLast(({ bytes }) => bytes <= most) ?? SCALES[0];
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {Plot} plot
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {boolean} [isStrip] one of several
 */
export function drawScale(ctx, { left, width, top, bottom, most }, colours, fonts, isStrip = false) {
  const unit = scaleOf(most);
  const step = niceStep(most / unit.bytes, Math.max(isStrip ? 1 : 2, Math.floor((bottom - top) / (fonts.size * 3.2))));
  const places = Math.max(0, -Math.floor(Math.log10(step)));
  ctx.font = fonts.text;
  ctx.textAlign = "right";
  for (let value = 0; value * unit.bytes <= most; value += step) {
    const y = Math.round(bottom - ((value * unit.bytes) / most) * (bottom - top));
    ctx.fillStyle = colours.line;
    ctx.fillRect(left, y, width, 1);
    ctx.fillStyle = colours.muted;
    const text = value.toFixed(places);
    ctx.fillText(text, left - 8, Math.max(fonts.size * 0.75, y + fonts.size * 0.36));
  }
  ctx.fillText(unit.name, left - 8, fonts.size * 0.8);
  ctx.textAlign = "left";
}

/**
 * @param {Layer} layer
 * @param {Stack} stack
 * @param {readonly string[]} roles
 * @param {Plot} plot
 * @param {Theme} theme
 * @param {Palette} colours
 */
export function drawAreas({ ctx, scale }, { times, tops }, roles, plot, theme, colours) {
  const { left, width, top, bottom, most, duration } = plot;
  const xs = times.map((ns) => left + Math.min(1, Math.max(0, ns / duration)) * width);
  /** @param {number} bytes */
  const y = (bytes) => bottom - (bytes / most) * (bottom - top);
  const end = left + width;
  for (let role = 0; role < roles.length; role += 1) {
    const upper = tops[role];
    const lower = role > 0 ? tops[role - 1] : null;
    ctx.beginPath();
    for (let i = 0; i < xs.length; i += 1) {
      const right = i + 1 < xs.length ? xs[i + 1] : end;
      ctx.lineTo(xs[i], y(upper[i]));
      ctx.lineTo(right, y(upper[i]));
    }
    for (let i = xs.length - 1; i >= 0; i -= 1) {
      const right = i + 1 < xs.length ? xs[i + 1] : end;
      ctx.lineTo(right, y(lower ? lower[i] : 0));
      ctx.lineTo(xs[i], y(lower ? lower[i] : 0));
    }
    ctx.closePath();
    ctx.fillStyle = fillOf(ctx, roles[role], theme, colours, scale);
    ctx.fill();
  }
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {Pick<Memory, "law" | "law_bytes">} memory
 * @param {Plot} plot
 * @param {{x: number, y: number}} peak where no words may stand
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {Measure | null} measure null where its words stand elsewhere
 * @returns {Box | null} room that its words take
 */
export function drawLawLine(ctx, { law, law_bytes }, plot, peak, colours, fonts, measure) {
  const { left, width, top, bottom, most } = plot;
  if (law === "" || !law_bytes) {
    return null;
  }
  const y = Math.round(bottom - (law_bytes / most) * (bottom - top));
  ctx.strokeStyle = colours.strong;
  ctx.lineWidth = 2;
  ctx.setLineDash([6, 4]);
  ctx.beginPath();
  ctx.moveTo(left, y);
  ctx.lineTo(left + width, y);
  ctx.stroke();
  ctx.setLineDash([]);
  if (measure === null) {
    return null;
  }
  const text = `${law} = ${formatBytes(law_bytes)}`;
  const dot = { x: peak.x - 8, y: peak.y - 8, w: 16, h: 16 };
  const [atRight, atLeft] = [left + width - measure(text, fonts.strong) - 8, left + 8];
  const boxes = [-0.95, 0.95].flatMap((above) =>
    [atRight, atLeft].map((x) => boxOf(text, x, y + fonts.size * above, fonts, measure)),
  );
  const box = boxes.find((one) => !meet(one, dot)) ?? boxes[0];
  drawTag(ctx, text, box, colours, fonts);
  return box;
}

/**
 * Where the peak is drawn.
 * @param {RankMemory} memory
 * @param {Plot} plot
 */
export function peakPoint({ peak_ns, peak_bytes }, { left, width, top, bottom, most, duration }) {
  return {
    x: left + Math.min(1, peak_ns / duration) * width,
    y: bottom - (peak_bytes / most) * (bottom - top),
  };
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {{x: number, y: number}} peak
 * @param {Plot} plot
 * @param {Box | null} taken room where nothing may be written
 * @param {Palette} colours
 * @param {Fonts} fonts
 * @param {Measure} measure
 */
export function drawPeak(ctx, peak, plot, taken, colours, fonts, measure) {
  const { left, width } = plot;
  const { x, y } = peak;
  ctx.fillStyle = colours.strong;
  ctx.strokeStyle = colours.card;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.arc(x, y, 5, 0, 7);
  ctx.stroke();
  ctx.fill();
  const w = measure(say("draw.areas.peak"), fonts.strong);
  const free = [x + 12, x - 12 - w]
    .map((at) => boxOf(say("draw.areas.peak"), at, Math.max(fonts.size * 0.7, y), fonts, measure))
    .find((box) => box.x > left && box.x + box.w < left + width && !(taken && meet(box, taken)));
  if (free) {
    drawTag(ctx, say("draw.areas.peak"), free, colours, fonts);
  }
}

/** @param {Box} one @param {Box} other */
function meet(one, other) {
  return (
    one.x < other.x + other.w &&
    other.x < one.x + one.w &&
    one.y < other.y + other.h &&
    other.y < one.y + one.h
  );
}

/**
 * Room of a word.
 * @param {string} text
 * @param {number} x left edge
 * @param {number} y of its middle
 * @param {Fonts} fonts
 * @param {Measure} measure
 * @returns {Box}
 */
function boxOf(text, x, y, { size, strong }, measure) {
  return { x: x - 5, y: y - size * 0.68, w: measure(text, strong) + 10, h: size * 1.36 };
}

/**
 * A word on a ground of its own, so that it is readable on any area.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} text
 * @param {Box} box
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
function drawTag(ctx, text, { x, y, w, h }, colours, fonts) {
  ctx.font = fonts.strong;
  ctx.fillStyle = colours.card;
  ctx.globalAlpha = 0.88;
  ctx.beginPath();
  ctx.roundRect(x, y, w, h, 4);
  ctx.fill();
  ctx.globalAlpha = 1;
  ctx.fillStyle = colours.text;
  ctx.fillText(text, x + 5, y + h / 2 + fonts.size * 0.35);
}
