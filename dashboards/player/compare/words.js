// Everything that the Compare page says by itself; what it says of a moment stands in the alignment
// (zerosim/replay/moments.toml).

import { formatBytes, formatDuration, formatExact, formatPsi, formatTime, joinDots } from "#player/format.js";

/** @import { Run } from "#player/types.d.ts" */

/** What all runs have in common, "" where they differ. @param {readonly string[]} values */
const common = (values) => (new Set(values).size === 1 ? values[0] : "");

export const WORDS = {
  choose: (/** @type {readonly Run[]} */ runs) =>
    joinDots([
      `${runs.length} runs`,
      common(runs.map(({ model }) => model)),
      common(runs.map(({ num_ranks: count }) => (count === 1 ? "1 rank" : `${count} ranks`))),
      common(runs.map(({ algorithm }) => algorithm)),
    ]),
  pageTitle: (/** @type {readonly string[]} */ titles) => joinDots([titles.join(", "), "zerosim"]),
  cannot: "These runs cannot be compared",
  hint: "Choose other runs, or reload the page.",
  position: (/** @type {number} */ at, /** @type {number} */ of) => `moment ${at} / ${of}`,
  spoken: (/** @type {number} */ at, /** @type {number} */ of, /** @type {string} */ title) =>
    `moment ${at} of ${of}: ${title}`,
  rank: (/** @type {number} */ rank) => `rank ${rank}`,
  memory: (/** @type {number} */ rank) => `Memory now, rank ${rank}`,
  states: (/** @type {number} */ rank) => `Model states now, rank ${rank}`,
  sent: (/** @type {number} */ rank) => `Sent so far, rank ${rank}`,
  time: (/** @type {number} */ rank, /** @type {readonly boolean[]} */ predicted) =>
    `Time so far, rank ${rank}${predicted.every(Boolean) ? ", predicted" : predicted.some(Boolean) ? ", partly predicted" : ""}`,
  replay: (/** @type {number} */ step, /** @type {number} */ of) => `step ${step} of ${of} in Replay`,
  map: (/** @type {string} */ title, /** @type {number} */ rank) =>
    `${title}: what rank ${rank} holds; the table says it in numbers`,
  noStates: "model states are not known",
  notRecorded: "not recorded",
  /** What was sent, and what the law says of it. */
  sentOf(/** @type {number} */ bytes, /** @type {number | null} */ law, /** @type {number} */ psi) {
    if (psi <= 0) {
      return formatBytes(bytes);
    }
    const sent = formatPsi(bytes, psi);
    return law === null ? sent : `${sent.replace(" Ψ", "")} of ${formatPsi(law, psi)}`;
  },
  law: "law",
  onTier: (/** @type {string} */ tier) => `on the ${tier}`,
  /** What lies beside the device. */
  elsewhere: (/** @type {readonly {kind: string, amount: number}[]} */ parts) =>
    parts.map(({ kind, amount }) => ` + ${formatBytes(amount)} ${kind}`).join(""),
  bytes: formatBytes,
  exact: (/** @type {number} */ bytes) => `${formatExact(bytes)} B`,
  duration: formatDuration,
  spent: formatTime,
  computing: "computing",
  waiting: "waiting for communication",
  other: "other",
  table: (/** @type {string} */ title) => `${title}: each run`,
  columns: ["run", "step", "next", "memory now", "law", "sent so far", "law", "computing", "waiting"],
  none: "–",
  tooFew: (/** @type {number} */ fewest) => `Choose ${fewest} or more.`,
  tooMany: (/** @type {number} */ most) => `No more than ${most}.`,
  playing: "Pause",
  paused: "Play",
};

/** What keys do here, where it is not what they do in Replay. */
export const KEY_WORDS = {
  forward: "forward one moment",
  back: "back one moment",
  first: "first moment",
  last: "last moment",
  table: "this moment as a table",
  run: "choose the runs",
};
