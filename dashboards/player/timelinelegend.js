// What the timeline's bars and lines mean: phases by tint and letter, waits, the critical path, and how
// far each rank is.

import { PHASES, inkOn, palette } from "#player/colours.js";
import { make } from "#player/dom.js";
import { letterOfPhase } from "#player/draw/bars.js";
import { waitFill } from "#player/draw/textures.js";
import { swatch } from "#player/legend.js";
import { named, say } from "#player/words.js";

/** @import { Theme } from "#player/colours.js" */
/** @import { Draw } from "#player/legend.js" */
/** @import { Model, Scene } from "#player/scene.d.ts" */
/** @import { Phase } from "#player/types.d.ts" */

const WAIT = 2;

/**
 * @param {HTMLElement} list
 * @param {Model} model
 */
export function createTimelineLegend(list, { doc }) {
  const phases = PHASES.filter((phase) => phase !== "outside" && doc.steps.some((step) => step.phase === phase));
  const { bars, launches, path } = doc.timeline;
  const waits = bars.some((kind, i) => i % 7 === 2 && kind === WAIT);
  let shown = "";

  /** @param {Pick<Scene, "theme" | "present">} scene */
  return function update({ theme, present }) {
    const key = `${theme} ${present} ${devicePixelRatio}`;
    if (key === shown) {
      return;
    }
    shown = key;
    const entries = phases.map((phase) => make("li", "", swatch(drawPhase(theme, phase)), named(phase)));
    if (waits) {
      entries.push(make("li", "", swatch(drawWait(theme)), say("timelinelegend.waits")));
    }
    if (launches.length > 0) {
      entries.push(make("li", "", swatch(drawLaunch(palette(theme).phases.forward)), say("timelinelegend.launches")));
    }
    if (path.length > 0) {
      entries.push(make("li", "", swatch(drawLine(palette(theme).path, 1.5)), say("timelinelegend.critical_path")));
    }
    entries.push(make("li", "", swatch(drawLine(palette(theme).cursor, 3.5)), say("timelinelegend.now")));
    list.replaceChildren(...entries);
  };
}

/** @param {Theme} theme @param {Phase} phase @returns {Draw} */
function drawPhase(theme, phase) {
  return (ctx, x, y, w, h) => {
    const fill = palette(theme).phases[phase];
    ctx.fillStyle = fill;
    ctx.fillRect(x, y, w, h);
    ctx.fillStyle = inkOn(fill);
    ctx.font = `700 ${h - 1}px system-ui, "DejaVu Sans", sans-serif`;
    ctx.textAlign = "center";
    ctx.fillText(letterOfPhase(phase), x + w / 2, y + h - 2);
  };
}

/** @param {Theme} theme @returns {Draw} */
function drawWait(theme) {
  return (ctx, x, y, w, h) => {
    ctx.fillStyle = waitFill(ctx, palette(theme), devicePixelRatio || 1);
    ctx.fillRect(x, y, w, h);
  };
}

/** @param {string} colour @returns {Draw} */
function drawLaunch(colour) {
  return (ctx, x, y, w, h) => {
    ctx.fillStyle = colour;
    for (const part of [0.15, 0.4, 0.75]) {
      ctx.fillRect(x + w * part, y + h / 2 - 1, 2, 2);
    }
  };
}

/** @param {string} colour @param {number} thick @returns {Draw} */
function drawLine(colour, thick) {
  return (ctx, x, y, w, h) => {
    ctx.fillStyle = colour;
    ctx.fillRect(x, y + (h - thick) / 2, w, thick);
  };
}
