// Search: which beats agree with a few words and comparisons. "reduce-scatter > 1 MB", "wait > 5 ms",
// "blocks.1", "rank 2". Pure.

import { waitedIn } from "#player/frames.js";
import { NUMBERS_PER_COPY } from "#player/document.js";
import { say } from "#player/words.js";

/** @import { Model } from "#player/scene.d.ts" */
/** @import { Step } from "#player/types.d.ts" */

/** @typedef {"bytes" | "time" | "wait"} Measure the quantity of a comparison */
/** @typedef {{measure: Measure, holds: (value: number) => boolean}} Comparison */
/** @typedef {{words: string[], comparisons: Comparison[], rank: number | null, beat: number | null}} Query */
/** @typedef {{step: number, beat: number}} Hit */

/** @type {Readonly<Record<string, [kind: "bytes" | "time", factor: number]>>} */
const UNITS = {
  b: ["bytes", 1], kb: ["bytes", 1e3], mb: ["bytes", 1e6], gb: ["bytes", 1e9],
  ns: ["time", 1], us: ["time", 1e3], µs: ["time", 1e3], ms: ["time", 1e6], s: ["time", 1e9],
};
/** @type {Readonly<Record<string, (value: number, limit: number) => boolean>>} */
const COMPARE = {
  ">": (value, limit) => value > limit,
  ">=": (value, limit) => value >= limit,
  "<": (value, limit) => value < limit,
  "<=": (value, limit) => value <= limit,
  "=": (value, limit) => value === limit,
};
const AMOUNT = /([<>]=?|=)\s*(\S*)\s*(\S*)/;
const NUMBER = /^(\d+(?:\.\d+)?)([^\d.]*)$/;
const WAITS = ["wait", "waits", "waited", "waiting", say("search.wait")];
/** What says only which measure is meant. */
const MEASURES = ["bytes", "payload", "took", "time"];

/** The query is not understood; the message is one line. */
export class SearchError extends Error {}

/**
 * Parse the typed query.
 * @param {string} text
 * @returns {Query}
 * @throws {SearchError}
 */
export function parseQuery(text) {
  let rest = text.trim().toLowerCase();
  /** @type {Comparison[]} */
  const comparisons = [];
  for (let found = AMOUNT.exec(rest); found; found = AMOUNT.exec(rest)) {
    const before = rest.slice(0, found.index).trim().split(/\s+/).at(-1) ?? "";
    const { used, measure, limit } = readAmount(found, before);
    comparisons.push({ measure, holds: (value) => COMPARE[found[1]](value, limit) });
    rest = `${rest.slice(0, found.index)} ${rest.slice(found.index + used)}`;
  }
  const isWait = comparisons.some(({ measure }) => measure === "wait");
  const hasAmount = comparisons.length > 0;
  const numbered = { rank: takeNumber("rank"), beat: takeNumber("beat") ?? takeNumber(say("search.beat")) };
  const words = rest
    .split(/\s+/)
    .filter((word) => word && !(isWait && WAITS.includes(word)) && !(hasAmount && MEASURES.includes(word)));
  if (words.some((word) => WAITS.includes(word))) {
    comparisons.push({ measure: "wait", holds: (value) => value > 0 });
  }
  return { words: words.filter((word) => !WAITS.includes(word)), comparisons, ...numbered };

  /** @param {string} name @returns {number | null} */
  function takeNumber(name) {
    const found = new RegExp(`(^|\\s)${name}\\s+(\\S+)`).exec(rest);
    if (!found) {
      return null;
    }
    if (!/^\d+$/.test(found[2])) {
      throw new SearchError(say("search.expected_a_number_as_in_2", { name, found: found[2], name_2: name }));
    }
    rest = rest.replace(found[0], " ");
    return Number(found[2]);
  }
}

/**
 * @param {RegExpExecArray} found
 * @param {string} before the word in front of it
 * @returns {{used: number, measure: Measure, limit: number}}
 */
function readAmount(found, before) {
  const [whole, sign, first, second] = found;
  const number = NUMBER.exec(first);
  const unit = number && (number[2] || second);
  const known = UNITS[unit ?? ""];
  if (!number || !known) {
    const said = `${first} ${second}`.trim() || say("search.nothing");
    throw new SearchError(say("search.is_no_amount_expected_a_number", { sign, said }));
  }
  const [kind, factor] = known;
  const isWait = WAITS.includes(before);
  if (isWait && kind === "bytes") {
    throw new SearchError(say("search.a_wait_is_no_number_of"));
  }
  const used = number[2] ? whole.length - second.length : whole.length;
  return { used, measure: isWait ? "wait" : kind, limit: Number(number[1]) * factor };
}

/**
 * The beats that match the whole query, each with its first matching step.
 * @param {Model} model
 * @param {Query} query
 * @returns {Hit[]}
 * @throws {SearchError} a rank or beat is named that there is not
 */
export function findHits(model, query) {
  const { doc } = model;
  const place = query.rank === null ? null : doc.ranks.indexOf(query.rank);
  if (place === -1) {
    throw new SearchError(say("search.rank_is_not_in_this_trace", { rank: query.rank, value: doc.ranks.join(", ") }));
  }
  if (query.beat !== null && !doc.beats[query.beat - 1]) {
    throw new SearchError(say("search.there_is_no_beat_expected_1", { beat: query.beat, beats: doc.beats.length }));
  }
  const ofWait = query.comparisons.filter(({ measure }) => measure === "wait");
  const ofStep = query.comparisons.filter(({ measure }) => measure !== "wait");
  // A collective is found where a beat is about it, not where some of its hops go on beside another.
  const about = new Map(doc.beats.map(({ main }, beat) => [doc.steps[main].collective, beat]));
  /** @type {Hit[]} */
  const hits = [];
  for (const [beat, { first, last, main, title }] of doc.beats.entries()) {
    if (query.beat !== null && query.beat !== beat + 1) {
      continue;
    }
    const own = [main, ...Array.from({ length: last - first + 1 }, (_, i) => first + i)].filter((k) => {
      const { collective } = doc.steps[k];
      return collective < 0 || (about.get(collective) ?? beat) === beat;
    });
    const longest = ofWait.length > 0 ? longestWait(model, first, last, place) : 0;
    const isWaiting = ofWait.every(({ holds }) => holds(longest));
    const step = isWaiting ? own.find((k) => agrees(model, k, doc.texts[title], query.words, ofStep, ofWait.length > 0 ? null : place)) : undefined;
    if (step !== undefined) {
      hits.push({ step, beat });
    }
  }
  return hits;
}

/** Whether a step agrees with words, amounts and a rank. @param {Model} model @param {number} position
 *  @param {string} title of its beat @param {readonly string[]} words
 *  @param {readonly Comparison[]} comparisons @param {number | null} rank */
function agrees({ doc }, position, title, words, comparisons, rank) {
  const step = doc.steps[position];
  if (rank !== null && !step.ranks.includes(rank)) {
    return false;
  }
  const said = [title, doc.texts[step.title], step.kind, step.op, step.purpose, step.unit_name, step.phase, doc.texts[step.source] ?? ""]
    .join(" ")
    .toLowerCase();
  return (
    words.every((word) => said.includes(word)) &&
    comparisons.every(({ measure, holds }) => holds(measure === "bytes" ? bytesOf(doc, step) : step.end_ns - step.start_ns))
  );
}

/** The payload of a call, or the largest copy of a rank. @param {Model["doc"]} doc @param {Step} step */
export function bytesOf(doc, step) {
  let most = doc.collectives[step.collective]?.payload_bytes ?? 0;
  for (let i = 1; i < step.copies.length; i += NUMBERS_PER_COPY) {
    most = Math.max(most, step.copies[i]);
  }
  return most;
}

/** How long a rank waits in a beat: one, or the one that waits longest. @param {Model} model
 *  @param {number} first @param {number} last @param {number | null} place */
export function longestWait({ doc }, first, last, place) {
  const ranks = place === null ? [...doc.ranks.keys()] : [place];
  return Math.max(
    ...ranks.map((rank) => {
      let waited = 0;
      for (let k = first; k <= last; k += 1) {
        waited += waitedIn(doc.steps[k], rank);
      }
      return waited;
    }),
  );
}
