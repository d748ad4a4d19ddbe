// The state map of one rank: a column for each unit, a band for each state. What a rank's card in
// Replay and a run's card in Compare have in common.

import { paintUnit } from "#player/draw/cells.js";
import { shortRole } from "#player/draw/stack.js";
import { numberOf, pickLabels, unitLabel } from "#player/draw/text.js";

/** @import { Palette } from "#player/colours.js" */
/** @import { Band, Column } from "#player/draw/layout.js" */
/** @import { Fonts, Measure } from "#player/draw/text.js" */
/** @import { Model } from "#player/scene.d.ts" */
/** @import { State, Unit } from "#player/types.d.ts" */

/**
 * Where a map lies.
 * @typedef {object} MapPlace
 * @property {number} left where units begin
 * @property {readonly Column[]} columns
 * @property {readonly Band[]} bands
 * @property {number} unitsY baseline of the units' names
 */

/**
 * One unit of one state.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Palette} colours
 * @param {number} scale
 * @param {Model} model
 * @param {Uint8Array} cells
 * @param {number} group of cells: a unit of a state of a rank
 * @param {MapPlace} place
 */
export function paintGroup(ctx, colours, scale, { numShards, numStates, numUnits }, cells, group, place) {
  const { x, w } = place.columns[group % numUnits];
  const { y, h } = place.bands[Math.floor(group / numUnits) % numStates];
  paintUnit(ctx, colours, scale, cells, group * numShards, numShards, place.left + x, y, w, h);
}

/**
 * Names of the states above their bands.
 * @param {CanvasRenderingContext2D} ctx
 * @param {MapPlace} place
 * @param {readonly State[]} states
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
export function drawStateNames(ctx, { left, bands }, states, colours, fonts) {
  ctx.fillStyle = colours.muted;
  ctx.font = fonts.text;
  for (const [s, { labelY }] of bands.entries()) {
    ctx.fillText(states[s].label, left, labelY);
  }
}

/**
 * Names of the states left of their bands, where they have no room above.
 * @param {CanvasRenderingContext2D} ctx
 * @param {MapPlace} place
 * @param {readonly State[]} states
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
export function drawGutter(ctx, { left, bands }, states, colours, fonts) {
  ctx.fillStyle = colours.muted;
  ctx.font = fonts.text;
  ctx.textAlign = "right";
  for (const [s, { labelY }] of bands.entries()) {
    ctx.fillText(shortRole(states[s].role), left, labelY);
  }
  ctx.textAlign = "left";
}

/**
 * A line above each tier below the device.
 * @param {CanvasRenderingContext2D} ctx
 * @param {MapPlace} place
 * @param {number} width
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
export function drawTierLines(ctx, { left, bands }, width, colours, fonts) {
  ctx.fillStyle = colours.wait;
  for (const { seamY } of bands) {
    if (!Number.isNaN(seamY)) {
      ctx.fillRect(left, seamY - fonts.size - 2, width, 1);
    }
  }
}

/**
 * Names of the tiers below the device, each above its first state.
 * @param {CanvasRenderingContext2D} ctx
 * @param {MapPlace} place
 * @param {readonly State[]} states those whose tiers are named
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
export function drawTierNames(ctx, { left, bands }, states, colours, fonts) {
  ctx.fillStyle = colours.text;
  ctx.font = fonts.strong;
  for (const [s, { tier }] of states.entries()) {
    if (!Number.isNaN(bands[s].seamY)) {
      ctx.fillText(tier, left, bands[s].seamY);
    }
  }
}

/**
 * Names of units below their columns, the active one strong.
 * @param {CanvasRenderingContext2D} ctx
 * @param {MapPlace} place
 * @param {ReturnType<typeof placeLabels>} labels
 * @param {number} active
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
export function drawUnitNames(ctx, { left, unitsY }, labels, active, colours, fonts) {
  ctx.textAlign = "center";
  for (const { text, centre, unit } of labels) {
    ctx.font = unit === active ? fonts.smallStrong : fonts.small;
    ctx.fillStyle = unit === active ? colours.text : colours.muted;
    ctx.fillText(text, left + centre, unitsY);
  }
  ctx.textAlign = "left";
}

/**
 * A line around a unit in some bands: what a step is about.
 * @param {CanvasRenderingContext2D} ctx
 * @param {MapPlace} place
 * @param {number} unit
 * @param {readonly number[]} states
 * @param {Palette} colours
 */
export function outlineUnit(ctx, { left, columns, bands }, unit, states, colours) {
  const { x, w } = columns[unit];
  ctx.strokeStyle = colours.strong;
  ctx.lineWidth = 2;
  for (const state of states) {
    ctx.beginPath();
    ctx.roundRect(left + x - 2, bands[state].y - 2, w + 4, bands[state].h + 4, 3);
    ctx.stroke();
  }
}

/**
 * Names of units below their columns; where they have no room, numbers for all but the active one,
 * and where hardly any of those have, the active one alone.
 * @param {readonly Unit[]} units
 * @param {readonly Column[]} columns
 * @param {number} width
 * @param {number} active
 * @param {Fonts} fonts
 * @param {Measure} measure
 */
export function placeLabels(units, columns, width, active, fonts, measure) {
  /** @param {(label: string) => string} short */
  const place = (short) => {
    const labels = units.map(({ name }, unit) => {
      const text = unit === active ? unitLabel(name) : short(unitLabel(name));
      const w = measure(text, unit === active ? fonts.smallStrong : fonts.small);
      const middle = columns[unit].x + columns[unit].w / 2;
      return { unit, text, width: w, centre: Math.max(w / 2, Math.min(width - w / 2, middle)) };
    });
    const shown = pickLabels(labels, active, 5);
    return labels.filter(({ unit }) => shown[unit]);
  };
  const whole = place((label) => label);
  if (whole.length === units.length) {
    return whole;
  }
  const numbers = place(numberOf);
  const lone = numbers.find(({ unit }) => unit === active);
  return numbers.length * 2 >= units.length || !lone ? numbers : [lone];
}
