// Draws the timeline's lanes: computations, collectives and waits of each rank, the critical path
// through them, and the axis.

import { PHASES, inkOn, shardColour } from "#player/colours.js";
import { laneHeight, laneY } from "#player/draw/lanes.js";
import { niceStep } from "#player/draw/text.js";
import { waitFill } from "#player/draw/textures.js";
import { say } from "#player/words.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { Layer } from "#player/draw/layer.js" */
/** @import { Lanes, TimeWindow } from "#player/draw/lanes.js" */
/** @import { Fonts } from "#player/draw/text.js" */
/** @import { Phase, Timeline } from "#player/types.d.ts" */

const COMPUTE = 0;
const CALL = 1;
const WAIT = 2;
const COPY = 3;

/** A phase in a letter: "F". @param {Phase} phase */
export function letterOfPhase(phase) {
  return phase === "outside" ? "" : phase[0].toUpperCase();
}

/**
 * @param {Layer} layer
 * @param {Timeline} timeline
 * @param {Lanes} lanes
 * @param {TimeWindow} shown
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
export function drawBars({ ctx, scale }, { bars }, lanes, shown, colours, fonts) {
  const right = lanes.left + lanes.width;
  const waits = waitFill(ctx, colours, scale);
  /** @type {(string | CanvasPattern)[]} by kind and phase */
  const fills = [
    ...PHASES.map((phase) => colours.phases[phase]),
    ...PHASES.map((phase) => colours.communication[phase]),
    ...PHASES.map(() => waits),
  ];
  const perNs = lanes.width / shown.span;
  const rounded = lanes.program >= 8;
  // Waits first: nothing else fills them.
  for (const pass of [WAIT, 0]) {
    for (let i = 0; i < bars.length; i += 7) {
      const kind = bars[i + 2];
      const rank = bars[i];
      if ((kind === WAIT) !== (pass === WAIT) || rank < lanes.first || rank >= lanes.first + lanes.count) {
        continue;
      }
      let x = lanes.left + (bars[i + 4] - shown.from) * perNs;
      let end = lanes.left + (bars[i + 5] - shown.from) * perNs;
      if (end < lanes.left || x > right) {
        continue;
      }
      x = Math.max(lanes.left, x);
      end = Math.min(right, end);
      const lane = bars[i + 1];
      const y = laneY(lanes, rank, lane);
      const h = laneHeight(lanes, lane);
      const w = Math.max(1, end - x - (end - x > 3 ? 0.75 : 0));
      ctx.fillStyle = kind === COPY ? colours.copies[lane - 2] : fills[kind * PHASES.length + bars[i + 3]];
      ctx.strokeStyle = colours.phases[PHASES[bars[i + 3]]];
      if (rounded && w >= 6 && h >= 5) {
        ctx.beginPath();
        ctx.roundRect(x, y, w, h, 2);
        ctx.fill();
      } else {
        ctx.fillRect(x, y, w, h);
      }
      if (kind === CALL && h >= 5) {
        ctx.lineWidth = 1;
        ctx.strokeRect(x + 0.5, y + 0.5, Math.max(0, w - 1), h - 1);
      }
      if (kind === COMPUTE && h >= fonts.size && w >= fonts.size) {
        ctx.fillStyle = inkOn(colours.phases[PHASES[bars[i + 3]]]);
        ctx.font = fonts.small;
        ctx.fillText(letterOfPhase(PHASES[bars[i + 3]]), x + 3, y + h / 2 + fonts.smallSize * 0.36);
      }
    }
  }
}

/**
 * When the host launched what the device executes: a thin line above the device's program.
 * @param {Layer} layer
 * @param {Timeline} timeline
 * @param {Lanes} lanes
 * @param {TimeWindow} shown
 * @param {Palette} colours
 */
export function drawLaunches({ ctx }, { launches }, lanes, shown, colours) {
  const right = lanes.left + lanes.width;
  for (let i = 0; lanes.launches > 0 && i < launches.length; i += 4) {
    const rank = launches[i];
    const x = Math.max(lanes.left, shown.x(launches[i + 2], lanes));
    const end = Math.min(right, shown.x(launches[i + 3], lanes));
    if (rank >= lanes.first && rank < lanes.first + lanes.count && end >= lanes.left && x <= right) {
      ctx.fillStyle = colours.phases[PHASES[launches[i + 1]]];
      ctx.fillRect(x, laneY(lanes, rank, 0) - lanes.launches, Math.max(1.5, end - x), lanes.launches - 2);
    }
  }
}

/**
 * The critical path: a line in the seam below a rank's computation or above its communication,
 * from rank to rank; dashed where it waits.
 * @param {Layer} layer
 * @param {Timeline} timeline
 * @param {Lanes} lanes
 * @param {TimeWindow} shown
 * @param {Palette} colours
 */
export function drawPath({ ctx }, { path }, lanes, shown, colours) {
  if (path.length === 0) {
    return;
  }
  const dense = path.length / 4 > lanes.width / 10;
  const thick = dense ? 1 : lanes.rowHeight >= 24 ? 2 : 1.25;
  ctx.save();
  ctx.beginPath();
  ctx.rect(lanes.left, 0, lanes.width, lanes.axisY);
  ctx.clip();
  ctx.beginPath();
  let lastY = NaN;
  for (let i = 0; i < path.length; i += 4) {
    const [rank, start, end] = [path[i], path[i + 2], path[i + 3]];
    const y = laneY(lanes, rank, 0) + lanes.program + lanes.seam / 2;
    const x = shown.x(start, lanes);
    if (Number.isNaN(lastY)) {
      ctx.moveTo(x, y);
    } else {
      ctx.lineTo(x, lastY);
      ctx.lineTo(x, y);
    }
    ctx.lineTo(shown.x(end, lanes), y);
    lastY = y;
  }
  ctx.lineJoin = "round";
  if (!dense) {
    ctx.strokeStyle = colours.card;
    ctx.lineWidth = thick + 2;
    ctx.stroke();
  }
  ctx.strokeStyle = colours.path;
  ctx.lineWidth = thick;
  ctx.stroke();
  ctx.restore();
}

/**
 * Names of ranks and lines between them.
 * @param {CanvasRenderingContext2D} ctx
 * @param {{ranks: readonly number[]}} doc
 * @param {Lanes} lanes
 * @param {number} width
 * @param {number} selected
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
export function drawNames(ctx, doc, lanes, width, selected, colours, fonts) {
  const radius = fonts.size * 0.34;
  const few = doc.ranks.length <= 8 && lanes.rowHeight >= fonts.size + 2;
  const last = lanes.first + lanes.count;
  for (let rank = lanes.first; rank < last; rank += 1) {
    const top = laneY(lanes, rank, 0);
    const y = top + (lanes.program + lanes.seam + lanes.communication) / 2;
    if (lanes.rowHeight >= 24) {
      ctx.fillStyle = colours.line;
      ctx.fillRect(lanes.left, top - lanes.launches + lanes.rowHeight - 5, width - lanes.left, 1);
    }
    const near = rank !== selected && Math.abs(rank - selected) * lanes.rowHeight < fonts.size;
    if (rank !== selected && (rank % lanes.labelEvery !== 0 || near)) {
      continue;
    }
    ctx.fillStyle = rank === selected ? colours.text : colours.muted;
    ctx.font = rank === selected ? fonts.strong : fonts.text;
    const baseline = Math.max(fonts.size * 0.8, Math.min(lanes.axisY - 1, y + fonts.size * 0.36));
    if (few) {
      ctx.fillText(say("shared.rank", { rank: doc.ranks[rank] }), 2 * radius + 7, baseline);
      ctx.fillStyle = shardColour(colours, doc.ranks[rank]);
      ctx.beginPath();
      ctx.arc(radius + 1, y, radius, 0, 7);
      ctx.fill();
    } else {
      ctx.fillText(rank === selected ? `▸ ${doc.ranks[rank]}` : `${doc.ranks[rank]}`, 0, baseline);
    }
  }
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {Lanes} lanes
 * @param {TimeWindow} shown
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
export function drawAxis(ctx, lanes, shown, colours, fonts) {
  const step = niceStep(shown.span, lanes.width / (fonts.size * 8));
  const places = Math.max(0, Math.ceil(6 - Math.log10(step) - 1e-9));
  ctx.fillStyle = colours.line;
  ctx.fillRect(lanes.left, lanes.axisY, lanes.width, 1);
  ctx.font = fonts.text;
  ctx.textAlign = "center";
  const right = lanes.left + lanes.width;
  for (let ns = Math.ceil(shown.from / step) * step; ns <= shown.to; ns += step) {
    const x = shown.x(ns, lanes);
    ctx.fillStyle = colours.line;
    ctx.fillRect(Math.round(x), lanes.axisY, 1, 5);
    ctx.fillStyle = colours.muted;
    const text = `${(ns / 1e6).toFixed(places)} ms`;
    const half = ctx.measureText(text).width / 2;
    ctx.fillText(text, Math.max(lanes.left + half, Math.min(right + 6 - half, x)), lanes.axisY + fonts.size + 6);
  }
  ctx.textAlign = "left";
}
