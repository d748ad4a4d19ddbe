// All that the Graph page says, in one place. What a trace says (labels, reasons, notes) is not here.

import { formatExact } from "#player/format.js";

/** @import { Cause, EdgeKind, NodeKind, RankTime, Time } from "#player/graph/types.d.ts" */

/** @type {Readonly<Record<NodeKind, string>>} */
export const KIND_WORDS = {
  phase: "beginning of a phase",
  compute: "computation",
  wait: "wait",
  call: "arrival at a collective",
  collective: "collective",
  send: "send",
  receive: "receive",
  copy: "copy between tiers",
  mark: "mark",
};

/** @type {Readonly<Record<EdgeKind, string>>} */
export const EDGE_WORDS = {
  "program order": "order",
  match: "match",
  message: "message",
  "tensor lifetime": "tensor",
};

/** @type {Readonly<Record<EdgeKind, string>>} */
export const EDGE_TITLES = {
  "program order": "Edges of program order: one thing after another on a rank",
  match: "Edges of a match: arrivals at a collective, and who continues when it completes",
  message: "Edges of messages: what one rank sends and another receives",
  "tensor lifetime": "Edges of a tensor's lifetime: what is made here and used there",
};

/** @type {Readonly<Record<Cause, string>>} */
export const CAUSE_WORDS = {
  compute: "units computing",
  communication: "collectives moving bytes, once all ranks had arrived",
  scheduling: "hand-over to and from the collectives' thread",
  other: "the program's own code between these",
  copying: "bytes moving between device, host and disk",
};

/** What a rank's time went to, in the order in which it is shown. */
const TIMES = /** @type {const} */ ([
  { field: "compute_ns", name: "compute", sort: "compute" },
  { field: "exposed_ns", name: "exposed", sort: "still" },
  { field: "copying_ns", name: "copying", sort: "copying" },
  { field: "waiting_ns", name: "for others", sort: "missing" },
  { field: "other_ns", name: "other", sort: "other" },
]);

/** The same of a run: one that copies nothing has no time of it. @param {Time} time */
export function timesOf({ ranks }) {
  return TIMES.filter(({ field }) => field !== "copying_ns" || ranks.some(copies));
}

/** Whether bytes went between the tiers of a rank. @param {RankTime} time */
export function copies({ copying_ns: stood, hidden_copying_ns: hidden }) {
  return stood + hidden > 0;
}

export const TEXTS = {
  all: "all",
  allRanks: "all ranks",
  allPhases: "all phases",
  allUnits: "all units",
  allKinds: "all kinds",
  rank: (/** @type {number} */ rank) => `rank ${rank}`,
  notSelected: "The critical path",
  notSelectedWhat:
    "The chain of events that made the iteration take as long as it did. Select an event to see what it waited for.",
  noPath: "The critical path and slack are not known here.",
  title: (/** @type {string} */ name) => `${name} · Graph · zerosim`,
  predicted: (/** @type {string} */ words, /** @type {boolean} */ isPredicted) =>
    isPredicted ? `${words}, predicted` : words,
  timesPredicted: "All times of this run are predicted.",
  facts: { begins: "begins", ends: "ends", lasts: "lasts", slack: "slack", bytes: "payload", path: "of the path" },
  critical: "0: it is critical",
  slackUnknown: "not known",
  lastRank: (/** @type {number} */ rank) => `all its ranks; rank ${rank} arrived last`,
  nothingBefore: "Nothing in this iteration came before it.",
  bound: (/** @type {string} */ reason, /** @type {string} */ source, /** @type {string} */ when) =>
    `Bound by ${source}: ${reason}, at ${when}.`,
  lag: (/** @type {string} */ time) => `It followed ${time} later.`,
  waitedFor: (/** @type {string} */ time, /** @type {number} */ rank) =>
    `It arrived ${time} before rank ${rank}, the last one.`,
  before: "It follows",
  after: "What follows it",
  more: (/** @type {number} */ count) => `and ${formatExact(count)} more`,
  binding: "what it was ready for last",
  source: (/** @type {string} */ where) => `called from ${where}`,
  replay: "Show in Replay",
  replayTitle: "This moment in Replay (Enter)",
  cannotReplay: "This iteration cannot be replayed.",
  exposed: "exposed",
  timeNotKnown: "Waits were not recorded, so what each rank's time went to is not known.",
  nothingExposed: "No rank was stalled in communication.",
  nobodyWaited: "No rank waited for another.",
  rows: (/** @type {number} */ shown, /** @type {number} */ all) =>
    `The first ${formatExact(shown)} of ${formatExact(all)}; zerosim graph names the longest.`,
  tooManyEdges: (/** @type {number} */ count) =>
    `${formatExact(count)} edges in sight, too many to tell apart: zoom in to see them`,
  hint: "drag moves, wheel zooms · arrows walk, + and − zoom · pale: has slack",
  filtered: (/** @type {number} */ count, /** @type {number} */ all) =>
    `${formatExact(count)} of ${formatExact(all)} events`,
  failed: "The graph cannot be shown",
  otherVersion: "The trace may be of another version of zerosim: run it again, or choose another one.",
};

/** Columns of the tables below the graph. */
export const COLUMNS = {
  path: ["at ms", "ms", "rank", "cause", "what"],
  ranks: ["rank", "wall", "compute", "exposed", "for others", "other", "hidden", "overlap"],
  exposed: ["rank", "phase", "purpose", "waits", "ms", "of its exposed"],
  waited: ["rank", "waited for", "ms"],
};

/** Of each rank's time, where bytes went between tiers. */
export const COPY_COLUMNS = ["copying", "hidden copying", "overlap"];
export const COPY_CAPTION = "; copying: stalled while bytes moved between device, host and disk";

/** @type {Readonly<Record<keyof typeof COLUMNS, string>>} */
export const CAPTIONS = {
  path: "The critical path in the order of time",
  ranks: "What each rank's time went to, in ms: compute + exposed + for others + other = wall",
  exposed: "Exposed communication and copying: what each rank was stalled for while bytes moved",
  waited: "Who waited for whom to arrive",
};

/** Of a program whose waits were not recorded. */
export const ARRIVALS = "Whose collectives waited for whose arrival; whether it stalled is not known";
