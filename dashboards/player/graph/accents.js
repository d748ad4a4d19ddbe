// Colours that only the Graph page needs: what time went to, and what is selected.

/** @import { Theme } from "#player/colours.js" */

/**
 * Where a rank stands still, one hue: solid while bytes move, hatched while another rank is missing.
 * @typedef {object} Accents
 * @property {string} selected
 * @property {string} compute
 * @property {string} still
 * @property {string} other
 */

/** @type {Readonly<Record<Theme, Accents>>} */
const ACCENTS = {
  light: { selected: "#b3176f", compute: "#6b7684", still: "#6c4aa8", other: "#c3cad3" },
  dark: { selected: "#ff86c8", compute: "#93a0af", still: "#b79aec", other: "#465363" },
};

/** @param {Theme} theme */
export function accents(theme) {
  return ACCENTS[theme];
}

/**
 * A CSS background of stripes: a texture beside the colour.
 * @param {string} ink
 */
export function stripes(ink) {
  return `repeating-linear-gradient(135deg, ${ink} 0 3px, transparent 3px 7px)`;
}
