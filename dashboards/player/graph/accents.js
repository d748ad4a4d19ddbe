// Colours that only the Graph page needs; what time went to stands in its style sheet.

/** @import { Theme } from "#player/colours.js" */

/**
 * @typedef {object} Accents
 * @property {string} selected a frame around an event, and its edges
 */

/** @type {Readonly<Record<Theme, Accents>>} */
const ACCENTS = {
  light: { selected: "#b3176f" },
  dark: { selected: "#ff86c8" },
};

/** @param {Theme} theme */
export function accents(theme) {
  return ACCENTS[theme];
}

/** A CSS background of stripes: a texture beside the colour. @param {string} ink */
export function stripes(ink) {
  return `repeating-linear-gradient(135deg, ${ink} 0 3px, transparent 3px 7px)`;
}
