// Colours that only the Graph page needs; what time went to stands in its style sheet.

/** @import { Theme } from "#player/colours.js" */

/**
 * @typedef {object} Accents
 * @property {string} selected a frame around an event, and its edges
 * @property {readonly [string, string]} copies over the bus, to or from the disk
 */

/** @type {Readonly<Record<Theme, Accents>>} */
const ACCENTS = {
  light: { selected: "#b3176f", copies: ["#2f8f8a", "#8a6d3b"] },
  dark: { selected: "#ff86c8", copies: ["#4fb8b2", "#c09a5f"] },
};

/** @param {Theme} theme */
export function accents(theme) {
  return ACCENTS[theme];
}

/** A CSS background of stripes: a texture beside the colour. @param {string} ink */
export function stripes(ink) {
  return `repeating-linear-gradient(135deg, ${ink} 0 3px, transparent 3px 7px)`;
}
