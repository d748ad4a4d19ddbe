// The view's state in the URL's fragment: a link reproduces the screen. The document is named in the query
// instead. Unknown parts are ignored, values out of range are clamped.

import { SPEEDS } from "#player/clock.js";
import { restOf } from "#player/beats.js";
import { NO_STOP } from "#player/tour.js";
import { formatBreakpoint, parseBreakpoint } from "#player/breakpoints.js";

/** @import { Breakpoint } from "#player/breakpoints.js" */

/**
 * @typedef {object} Place
 * @property {number} position a step, from 0; `beat` in the URL is the beat's number, from 1, and
 *   `at` that of the step where it is not the one that the beat is about
 * @property {boolean} isOver the end of the step; `end` in the URL
 * @property {number} tour the current stop of a tour, from 0; -1 off tour. `tour` in the URL
 *   is the stop's number, from 1, and implies its step
 * @property {boolean} hops one hop after the other, not beat by beat
 * @property {number} rank a position in `ranks`; `rank` in the URL is the global rank
 * @property {"work" | "present"} mode
 * @property {"light" | "dark" | null} theme null: as the system wants it
 * @property {number} speed
 * @property {boolean} table
 * @property {Breakpoint[]} breakpoints
 */

/** What places are in: the steps of a document, its ranks, and the steps of its tour; of a comparison
 *  there are neither beats nor a tour.
 *  @typedef {{numSteps: number, doc: {ranks: readonly number[]}, stops?: readonly number[]} & Partial<Beats>} Ground
 *  @typedef {Pick<import("#player/scene.d.ts").Track, "beatOf" | "beatMain">} Beats */

/**
 * Parse a fragment; the result has only what the fragment sets.
 * @param {string} hash with or without the "#"
 * @param {Ground} model
 * @returns {Partial<Place>}
 */
export function parsePlace(hash, model) {
  const fields = readFields(hash);
  /** @type {Partial<Place>} */
  const place = {};
  const beat = readNumber(fields.get("beat")?.[0], model.beatMain?.length ?? 0);
  if (beat !== null && model.beatMain) {
    place.position = model.beatMain[beat];
  }
  const at = readNumber(fields.get("at")?.[0], model.numSteps);
  if (at !== null) {
    place.position = at;
  }
  if (fields.get("end")?.[0] === "1") {
    place.isOver = true;
  }
  const stop = readNumber(fields.get("tour")?.[0], model.stops?.length ?? 0);
  if (stop !== null && model.stops) {
    place.tour = stop;
    place.position = model.stops[stop];
  }
  if (fields.get("hops")?.[0] === "1" && model.beatOf) {
    place.hops = true;
  }
  const rank = model.doc.ranks.findIndex((one) => String(one) === fields.get("rank")?.[0]);
  if (rank >= 0) {
    place.rank = rank;
  }
  const mode = fields.get("mode")?.[0];
  if (mode === "present" || mode === "work") {
    place.mode = mode;
  }
  const theme = fields.get("theme")?.[0];
  if (theme === "light" || theme === "dark") {
    place.theme = theme;
  }
  const speed = Number(fields.get("speed")?.[0]);
  if (SPEEDS.includes(speed)) {
    place.speed = speed;
  }
  if (fields.get("table")?.[0] === "1") {
    place.table = true;
  }
  const breakpoints = (fields.get("break") ?? []).flatMap((text) => parseBreakpoint(text) ?? []);
  if (breakpoints.length > 0) {
    place.breakpoints = breakpoints;
  }
  return place;
}

/** A place in a list by its number, from 1; out of range it is the nearest. @param {string | undefined} text
 *  @param {number} length @returns {number | null} from 0; null if it is not one */
function readNumber(text, length) {
  const isNumber = text !== undefined && /^-?\d{1,15}$/.test(text) && length > 0;
  return isNumber ? Math.max(0, Math.min(length - 1, Number(text) - 1)) : null;
}

/** @param {number} position @param {Ground} ground @returns {[string, string][]} */
function formatPosition(position, { beatOf, beatMain }) {
  if (!beatOf || !beatMain) {
    return [["at", String(position + 1)]];
  }
  /** @type {[string, string]} */
  const beat = ["beat", String(beatOf[position] + 1)];
  return restOf({ beatOf, beatMain }, position) === position ? [beat] : [beat, ["at", String(position + 1)]];
}

/**
 * Write a fragment; defaults are omitted, except for the event.
 * @param {Place} place
 * @param {Ground} model
 * @returns {string} with the "#"
 */
export function formatPlace(place, model) {
  /** @type {[string, string][]} */
  const tour = [["tour", String(place.tour + 1)]];
  const fields = place.tour === NO_STOP ? formatPosition(place.position, model) : tour;
  if (place.isOver) {
    fields.push(["end", "1"]);
  }
  if (place.hops) {
    fields.push(["hops", "1"]);
  }
  if (place.rank > 0) {
    fields.push(["rank", String(model.doc.ranks[place.rank])]);
  }
  if (place.mode === "present") {
    fields.push(["mode", place.mode]);
  }
  if (place.theme !== null) {
    fields.push(["theme", place.theme]);
  }
  if (place.speed !== 1) {
    fields.push(["speed", String(place.speed)]);
  }
  if (place.table) {
    fields.push(["table", "1"]);
  }
  for (const breakpoint of place.breakpoints) {
    fields.push(["break", formatBreakpoint(breakpoint)]);
  }
  return `#${fields.map(([name, value]) => `${name}=${encode(value)}`).join("&")}`;
}

/**
 * The query that leads to another iteration of the same trace.
 * @param {string} search
 * @param {number} iteration
 */
export function iterationSearch(search, iteration) {
  const query = new URLSearchParams(search);
  query.set("iteration", String(iteration));
  return `?${query}`;
}

/** @param {string} hash @returns {Map<string, string[]>} */
function readFields(hash) {
  /** @type {Map<string, string[]>} */
  const fields = new Map();
  for (const part of hash.replace(/^#/, "").split("&")) {
    const [name, ...rest] = part.split("=");
    try {
      const value = decodeURIComponent(rest.join("="));
      fields.set(name, [...(fields.get(name) ?? []), value]);
    } catch {
      // Not a URL that this page wrote.
    }
  }
  return fields;
}

/** @param {string} text */
function encode(text) {
  return encodeURIComponent(text).replace(/%(3A|2C|2F)/g, decodeURIComponent);
}
