// The Compare page's own texts; the texts of a moment are in the alignment
// (zerosim/view/replay/moments.toml).

import { formatBytes, formatDuration, formatExact, formatPsi, formatTime, joinDots } from "#player/format.js";
import { named, say } from "#player/words.js";

/** @import { Run } from "#player/types.d.ts" */

/** The common value of all runs, "" if they differ. @param {readonly string[]} values */
const common = (values) => (new Set(values).size === 1 ? values[0] : "");

export const WORDS = {
  choose: (/** @type {readonly Run[]} */ runs) =>
    joinDots([
      say("compare.words.runs", { num: runs.length }),
      common(runs.map(({ model }) => model)),
      common(runs.map(({ num_ranks: count }) => say("compare.words.ranks", { num: count }))),
      common(runs.map(({ algorithm }) => algorithm)),
    ]),
  pageTitle: (/** @type {readonly string[]} */ titles) => joinDots([titles.join(", "), "zerosim"]),
  cannot: say("compare.words.these_runs_cannot_be_compared"),
  hint: say("compare.words.choose_other_runs_or_reload_the"),
  position: (/** @type {number} */ at, /** @type {number} */ of) => say("compare.words.moment", { at, of }),
  spoken: (/** @type {number} */ at, /** @type {number} */ of, /** @type {string} */ title) =>
    say("compare.words.moment_of", { at, of, title }),
  rank: (/** @type {number} */ rank) => say("shared.rank", { rank }),
  memory: (/** @type {number} */ rank) => say("compare.words.memory_now_rank", { rank }),
  states: (/** @type {number} */ rank) => say("compare.words.model_states_now_rank", { rank }),
  sent: (/** @type {number} */ rank) => say("compare.words.sent_so_far_rank", { rank }),
  time: (/** @type {number} */ rank, /** @type {readonly boolean[]} */ predicted) =>
    say(predicted.every(Boolean) ? "compare.words.time_predicted" : predicted.some(Boolean) ? "compare.words.time_partly" : "compare.words.time", { rank }),
  replay: (/** @type {number} */ step, /** @type {number} */ of) => say("compare.words.step_of_in_replay", { step, of }),
  map: (/** @type {string} */ title, /** @type {number} */ rank) =>
    say("compare.words.what_rank_holds_the_table_says", { title, rank }),
  noStates: say("shared.no_states"),
  notRecorded: say("shared.not_recorded"),
  /** The sent bytes, beside the law. */
  sentOf(/** @type {number} */ bytes, /** @type {number | null} */ law, /** @type {number} */ psi) {
    if (psi <= 0) {
      return formatBytes(bytes);
    }
    const sent = formatPsi(bytes, psi);
    return law === null ? sent : say("shared.amount_of", { amount: sent.replace(" Ψ", ""), whole: formatPsi(law, psi) });
  },
  law: say("compare.words.law"),
  onTier: (/** @type {string} */ tier) => say("compare.words.on_the", { tier: named(tier) }),
  /** Bytes off the device. */
  elsewhere: (/** @type {readonly {kind: string, amount: number}[]} */ parts) =>
    parts.map(({ kind, amount }) => ` + ${formatBytes(amount)} ${named(kind)}`).join(""),
  bytes: formatBytes,
  exact: (/** @type {number} */ bytes) => `${formatExact(bytes)} B`,
  duration: formatDuration,
  spent: formatTime,
  computing: say("compare.words.computing"),
  waiting: say("compare.words.waiting_for_communication"),
  other: say("compare.words.other"),
  table: (/** @type {string} */ title) => say("compare.words.each_run", { title }),
  columns: [say("compare.words.run"), say("compare.words.step"), say("compare.words.next"), say("compare.words.memory_now"), say("compare.words.law"), say("compare.words.sent_so_far"), say("compare.words.law"), say("compare.words.computing"), say("compare.words.waiting")],
  none: "–",
  tooFew: (/** @type {number} */ fewest) => say("compare.words.choose_or_more", { fewest }),
  tooMany: (/** @type {number} */ most) => say("compare.words.no_more_than", { most }),
  playing: say("compare.words.pause"),
  paused: say("compare.words.play"),
};

/** The actions of keys here, if they differ from Replay. */
export const KEY_WORDS = {
  forward: say("compare.words.forward_one_moment"),
  back: say("compare.words.back_one_moment"),
  first: say("compare.words.first_moment"),
  last: say("compare.words.last_moment"),
  table: say("compare.words.this_moment_as_a_table"),
  run: say("compare.words.choose_the_runs"),
};
