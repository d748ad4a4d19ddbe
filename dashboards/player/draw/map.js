// The state map of one rank: a column for each unit, a band for each state. Common to a rank's card in Replay
// and a run's card in Compare.

import { paintUnit } from "#player/draw/cells.js";
import { isTogether } from "#player/draw/layout.js";
import { bandName } from "#player/draw/stack.js";
import { numberOf, pickLabels, unitLabel } from "#player/draw/text.js";
import { named } from "#player/words.js";

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
export function paintGroup(ctx, colours, scale, { doc, numShards, numStates, numUnits }, cells, group, place) {
  const { x, w } = place.columns[group % numUnits];
  const { y, h } = place.bands[Math.floor(group / numUnits) % numStates];
  paintUnit(ctx, colours, scale, cells, group * numShards, numShards, doc.units[group % numUnits].hue, place.left + x, y, w, h);
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
 * Names of the states left of their bands, if there is no room above.
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
  /** @param {string} role @param {number} s */
  const label = (role, s) => (bands[s].tier ? `${bands[s].tier} ${role}` : role);
  for (let first = 0; first < bands.length; ) {
    let last = first;
    while (isTogether(states, last + 1)) {
      last += 1;
    }
    const isTight = last > first && bands[first + 1].y - bands[first].y < fonts.size;
    if (isTight) {
      ctx.fillText(label(named("optimizer"), first), left, Math.round((bands[first].labelY + bands[last].labelY) / 2));
    }
    for (let s = first; !isTight && s <= last; s += 1) {
      ctx.fillText(label(bandName(states[s]), s), left, bands[s].labelY);
    }
    first = last + 1;
  }
  ctx.textAlign = "left";
}

/**
 * The same where bands are closer to each other than lines of text: the names of tiers, or of states that
 * are all in one those that have room.
 * @param {CanvasRenderingContext2D} ctx
 * @param {MapPlace} place
 * @param {readonly State[]} states
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
export function drawTightGutter(ctx, { left, bands }, states, colours, fonts) {
  ctx.fillStyle = colours.muted;
  ctx.font = fonts.text;
  ctx.textAlign = "right";
  const isOneTier = states.every(({ tier }) => tier === states[0].tier);
  let free = -Infinity;
  for (let first = 0; first < bands.length; ) {
    let last = first;
    while (isOneTier ? isTogether(states, last + 1) : states[last + 1]?.tier === states[first].tier) {
      last += 1;
    }
    const middle = (bands[first].y + bands[last].y + bands[last].h) / 2;
    if (middle - fonts.size / 2 >= free) {
      const name = last > first ? named("optimizer") : bandName(states[first]);
      ctx.fillText(isOneTier ? name : named(states[first].tier), left, Math.round(middle + fonts.size * 0.36));
      free = middle + fonts.size / 2;
    }
    first = last + 1;
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
 * @param {readonly State[]} states those with named tiers
 * @param {Palette} colours
 * @param {Fonts} fonts
 */
export function drawTierNames(ctx, { left, bands }, states, colours, fonts) {
  ctx.fillStyle = colours.text;
  ctx.font = fonts.strong;
  for (const [s, { tier }] of states.entries()) {
    if (!Number.isNaN(bands[s].seamY)) {
      ctx.fillText(named(tier), left, bands[s].seamY);
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
 * A line around a unit in some bands: the subject of a step.
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
 * The runs of shards of a unit on a rank that a step frees: its own shard is between them.
 * @param {Model} model
 * @param {readonly number[]} freed cells
 * @param {number} rank
 * @param {number} state
 * @param {number} unit
 * @returns {{from: number, to: number}[]} `to` is not in it
 */
export function freedRuns({ numShards, numStates, numUnits }, freed, rank, state, unit) {
  const first = ((rank * numStates + state) * numUnits + unit) * numShards;
  /** @type {{from: number, to: number}[]} */
  const runs = [];
  for (const shard of freed.map((cell) => cell - first).filter((one) => one >= 0 && one < numShards).sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last?.to === shard) {
      last.to += 1;
    } else {
      runs.push({ from: shard, to: shard + 1 });
    }
  }
  return runs;
}

/**
 * A cross over some shards of a unit in a band: they are freed.
 * @param {CanvasRenderingContext2D} ctx
 * @param {MapPlace} place
 * @param {number} unit
 * @param {number} state
 * @param {{from: number, to: number}} run parts of the unit, 0 to 1
 * @param {Palette} colours
 */
export function crossRun(ctx, { left, columns, bands }, unit, state, { from, to }, colours) {
  const { x, w: whole } = columns[unit];
  const { y, h } = bands[state];
  const w = whole * (to - from);
  const arm = Math.max(2, Math.min(Math.max(5, h / 2), w / 2 - 1));
  const [centreX, centreY] = [left + x + whole * from + w / 2, y + h / 2];
  for (const [colour, width] of /** @type {const} */ ([[colours.card, Math.min(6, arm + 2)], [colours.text, Math.min(3, arm / 2 + 0.5)]])) {
    ctx.strokeStyle = colour;
    ctx.lineWidth = width;
    ctx.lineCap = "round";
    ctx.beginPath();
    ctx.moveTo(centreX - arm, centreY - arm);
    ctx.lineTo(centreX + arm, centreY + arm);
    ctx.moveTo(centreX + arm, centreY - arm);
    ctx.lineTo(centreX - arm, centreY + arm);
    ctx.stroke();
  }
  ctx.lineCap = "butt";
}

/**
 * What names stand below the columns: of units, or of the stages of a pipeline that follow each other in them.
 * @param {readonly Unit[]} units
 * @param {readonly Column[]} columns
 * @param {number} active
 * @returns {{unit: number, label: string, isActive: boolean, from: number, to: number}[]}
 */
function namesBelow(units, columns, active) {
  /** @type {{unit: number, last: number, label: string}[]} */
  const found = [];
  for (const [unit, { name, stage }] of units.entries()) {
    const before = found.at(-1);
    if (before && stage !== "" && before.label === stage) {
      before.last = unit;
    } else {
      found.push({ unit, last: unit, label: stage || unitLabel(name) });
    }
  }
  return found.map(({ unit, last, label }) => {
    const isActive = unit <= active && active <= last;
    const [from, to] = [columns[unit].x, columns[last].x + columns[last].w];
    return { unit: isActive ? active : unit, label, isActive, from, to };
  });
}

/** Between two names. */
const GAP = 5;

/**
 * The names beside the active one, which is wide, move away from it below their columns.
 * @param {{centre: number, width: number, from: number, to: number}[]} labels
 * @param {number} at the active one
 */
function giveWay(labels, at) {
  for (const by of at < 0 ? [] : [-1, 1]) {
    const [label, active] = [labels[at + by], labels[at]];
    const nearest = label && active.centre + by * (active.width / 2 + GAP + 0.5 + label.width / 2);
    if (label && by * (nearest - label.centre) > 0 && nearest - label.width / 2 >= label.from && nearest + label.width / 2 <= label.to) {
      label.centre = nearest;
    }
  }
}

/**
 * Names of units below their columns; if there is no room, numbers for all but the active one,
 * and where hardly any of those have, the active one alone.
 * @param {readonly Unit[]} units
 * @param {readonly Column[]} columns
 * @param {number} width
 * @param {number} active
 * @param {Fonts} fonts
 * @param {Measure} measure
 */
export function placeLabels(units, columns, width, active, fonts, measure) {
  const names = namesBelow(units, columns, active);
  /** @param {(label: string) => string} short */
  const place = (short) => {
    const labels = names.map(({ unit, label, isActive, from, to }) => {
      const text = short(label);
      const w = measure(text, isActive ? fonts.smallStrong : fonts.small);
      return { unit, text, width: w, from, to, centre: Math.max(w / 2, Math.min(width - w / 2, (from + to) / 2)) };
    });
    const at = names.findIndex(({ isActive }) => isActive);
    giveWay(labels, at);
    const shown = pickLabels(labels, at, GAP);
    return labels.filter((_, i) => shown[i]);
  };
  const whole = place((label) => label);
  if (whole.length === names.length) {
    return whole;
  }
  const numbers = place(numberOf);
  const lone = numbers.find(({ unit }) => unit === active);
  return numbers.length * 2 >= names.length || !lone ? numbers : [lone];
}
