// The layout of many, folded ranks: a strip for each rank in one or two columns, beside it a rail for
// packets. Pure.

import { unitColumns } from "#player/draw/layout.js";

/** @import { Column } from "#player/draw/layout.js" */
/** @import { Fonts } from "#player/draw/text.js" */
/** @import { State, Unit } from "#player/types.d.ts" */

/** Lower strips are laid out in two columns. */
const LEAST_ROW = 12;
const RAIL = 34;
const GAP = 28;

/**
 * @typedef {object} FoldLayout
 * @property {number} rows in a column
 * @property {number} rowHeight
 * @property {number} top of the first row
 * @property {number} strip height of the drawing in a row
 * @property {number} headerY baseline of the states' names
 * @property {{x: number, w: number}[]} sides columns of strips: from the labels to the right end
 * @property {number} labelWidth
 * @property {number} railWidth right of the labels
 * @property {Column[]} blocks of states, from the left of a side
 * @property {Column[][]} columns of units by state, from the left of a block
 * @property {number} labelEvery
 * @property {number} labelHeight
 */

/**
 * @param {object} given
 * @param {number} given.width
 * @param {number} given.height
 * @param {number} given.numRanks
 * @param {readonly Unit[]} given.units
 * @param {readonly State[]} given.states
 * @param {Fonts} given.fonts
 * @param {number} given.labelWidth of the longest name of a rank
 * @returns {FoldLayout}
 */
export function layoutFold({ width, height, numRanks, units, states, fonts, labelWidth }) {
  const top = fonts.size + 16;
  const room = Math.max(20, height - top - 2);
  const sideCount = room / numRanks < LEAST_ROW ? 2 : 1;
  const rows = Math.ceil(numRanks / sideCount);
  const rowHeight = Math.max(3, Math.min(30, Math.floor((room / rows) * 2) / 2));
  const sideWidth = Math.floor((width - GAP * (sideCount - 1)) / sideCount);
  const left = Math.ceil(labelWidth) + 10 + RAIL;
  const between = 14;
  const inner = sideWidth - left - 4 - between * Math.max(0, states.length - 1);
  // Values and gradients change in every step, the optimizer states seldom: they get less.
  const weights = states.map(({ role }) => (/param|grad/.test(role) ? 1.5 : 1));
  const total = weights.reduce((sum, one) => sum + one, 0);
  let x = left;
  const blocks = weights.map((weight) => {
    const block = { x: Math.round(x), w: Math.max(1, Math.floor((inner * weight) / total)) };
    x += block.w + between;
    return block;
  });
  const every = [1, 2, 4, 8, 16].find((step) => step * rowHeight >= fonts.size + 1) ?? 32;
  return {
    rows,
    rowHeight,
    top,
    strip: Math.max(2, rowHeight - (rowHeight >= 9 ? 3 : 1)),
    headerY: fonts.size + 2,
    sides: Array.from({ length: sideCount }, (_, i) => ({ x: i * (sideWidth + GAP), w: sideWidth })),
    labelWidth: Math.ceil(labelWidth),
    railWidth: RAIL,
    blocks,
    columns: blocks.map(({ w }) => unitColumns(units.map((unit) => unit.elements), w, 2, 4)),
    labelEvery: every,
    labelHeight: fonts.size * 1.15,
  };
}

/**
 * Top of a rank's row.
 * @param {FoldLayout} layout
 * @param {number} rank
 */
export function rowY({ rows, rowHeight, top }, rank) {
  return Math.round(top + (rank % rows) * rowHeight);
}

/** Which column of strips a rank is in. @param {FoldLayout} layout @param {number} rank */
export function sideOf({ rows }, rank) {
  return Math.floor(rank / rows);
}

/**
 * The rank at a point; -1 if there is none.
 * @param {FoldLayout} layout
 * @param {number} numRanks
 * @param {number} x
 * @param {number} y
 */
export function hitRow({ rows, rowHeight, top, sides }, numRanks, x, y) {
  const side = sides.findIndex((one) => x >= one.x && x < one.x + one.w);
  const row = Math.floor((y - top) / rowHeight);
  const rank = side * rows + row;
  return side < 0 || row < 0 || row >= rows || rank >= numRanks ? -1 : rank;
}

/**
 * Whether a row's name is shown: at regular intervals, and the selected one instead of its neighbours.
 * @param {FoldLayout} layout
 * @param {number} rank
 * @param {number} selected
 */
export function hasLabel({ labelEvery, labelHeight, rowHeight, rows }, rank, selected) {
  if (rank === selected) {
    return true;
  }
  const sameSide = Math.floor(rank / rows) === Math.floor(selected / rows);
  return (rank % rows) % labelEvery === 0 && !(sameSide && Math.abs(rank - selected) * rowHeight < labelHeight);
}
