// Colours that only the Graph page needs; those of time by cause are in its style sheet.

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

/** A CSS background of rules, as what waits is drawn. @param {string} ink */
export function rules(ink) {
  return `repeating-linear-gradient(0deg, transparent 0 3px, ${ink} 3px 4px)`;
}

/** A CSS background of dots, as in the drawing of received data. @param {string} ink */
export function dots(ink) {
  return `radial-gradient(${ink} 1.4px, transparent 1.6px) 0 0 / 4px 4px`;
}
