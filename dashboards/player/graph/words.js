// The texts of the Graph page, in one place. Texts of a trace (labels, reasons, notes) are not here.

import { formatExact } from "#player/format.js";
import { say } from "#player/words.js";

/** @import { Cause, EdgeKind, NodeKind, RankTime, Time } from "#player/graph/types.d.ts" */

/** @type {Readonly<Record<NodeKind, string>>} */
export const KIND_WORDS = {
  phase: say("graph.words.beginning_of_a_phase"),
  compute: say("graph.words.computation"),
  wait: say("graph.words.wait"),
  call: say("graph.words.arrival_at_a_collective"),
  collective: say("graph.words.collective"),
  send: say("graph.words.send"),
  receive: say("graph.words.receive"),
  copy: say("graph.words.copy_between_tiers"),
  mark: say("graph.words.mark"),
};

/** @type {Readonly<Record<EdgeKind, string>>} */
export const EDGE_WORDS = {
  "program order": say("graph.words.order"),
  match: say("graph.words.match"),
  message: say("graph.words.message"),
  "tensor lifetime": say("graph.words.tensor"),
};

/** @type {Readonly<Record<EdgeKind, string>>} */
export const EDGE_TITLES = {
  "program order": say("graph.words.edges_of_program_order_one_thing"),
  match: say("graph.words.edges_of_a_match_arrivals_at"),
  message: say("graph.words.edges_of_messages_what_one_rank"),
  "tensor lifetime": say("graph.words.edges_of_a_tensor_s_lifetime"),
};

/** @type {Readonly<Record<Cause, string>>} */
export const CAUSE_WORDS = {
  compute: say("graph.words.units_computing"),
  communication: say("graph.words.collectives_moving_bytes_once_all_ranks"),
  scheduling: say("graph.words.hand_over_to_and_from_the"),
  other: say("graph.words.the_program_s_own_code_between"),
  copying: say("graph.words.bytes_moving_between_device_host_and"),
};

/** Causes of a rank's time, in display order. */
const TIMES = /** @type {const} */ ([
  { field: "compute_ns", name: say("graph.words.compute"), sort: "compute" },
  { field: "exposed_ns", name: say("graph.words.exposed"), sort: "still" },
  { field: "copying_ns", name: say("graph.words.copying"), sort: "copying" },
  { field: "waiting_ns", name: say("graph.words.for_others"), sort: "missing" },
  { field: "other_ns", name: say("graph.words.other"), sort: "other" },
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
  all: say("graph.words.all"),
  allRanks: say("graph.words.all_ranks"),
  allPhases: say("graph.words.all_phases"),
  allUnits: say("graph.words.all_units"),
  allKinds: say("graph.words.all_kinds"),
  rank: (/** @type {number} */ rank) => say("shared.rank", { rank }),
  notSelected: say("graph.words.the_critical_path"),
  notSelectedWhat:
    say("graph.words.the_chain_of_events_that_made"),
  noPath: say("graph.words.the_critical_path_and_slack_are"),
  title: (/** @type {string} */ name) => say("graph.words.graph_zerosim", { name }),
  predicted: (/** @type {string} */ words, /** @type {boolean} */ isPredicted) =>
    isPredicted ? say("graph.words.predicted", { words }) : words,
  timesPredicted: say("graph.words.all_times_of_this_run_are"),
  facts: { begins: say("graph.words.begins"), ends: say("graph.words.ends"), lasts: say("graph.words.lasts"), slack: say("graph.words.slack"), bytes: say("graph.words.payload"), path: say("graph.words.of_the_path") },
  critical: say("graph.words.0_it_is_critical"),
  slackUnknown: say("graph.words.not_known"),
  lastRank: (/** @type {number} */ rank) => say("graph.words.all_its_ranks_rank_arrived_last", { rank }),
  nothingBefore: say("graph.words.nothing_in_this_iteration_came_before"),
  bound: (/** @type {string} */ reason, /** @type {string} */ source, /** @type {string} */ when) =>
    say("graph.words.bound_by_at", { source, reason, when }),
  lag: (/** @type {string} */ time) => say("graph.words.it_followed_later", { time }),
  waitedFor: (/** @type {string} */ time, /** @type {number} */ rank) =>
    say("graph.words.it_arrived_before_rank_the_last", { time, rank }),
  before: say("graph.words.it_follows"),
  after: say("graph.words.what_follows_it"),
  more: (/** @type {number} */ count) => say("graph.words.and_more", { count: formatExact(count) }),
  binding: say("graph.words.what_it_was_ready_for_last"),
  source: (/** @type {string} */ where) => say("graph.words.called_from", { where }),
  replay: say("graph.words.show_in_replay"),
  replayTitle: say("graph.words.this_moment_in_replay_enter"),
  cannotReplay: say("graph.words.this_iteration_cannot_be_replayed"),
  exposed: say("graph.words.exposed"),
  timeNotKnown: say("graph.words.waits_were_not_recorded_so_what"),
  nothingExposed: say("graph.words.no_rank_was_stalled_in_communication"),
  nobodyWaited: say("graph.words.no_rank_waited_for_another"),
  rows: (/** @type {number} */ shown, /** @type {number} */ all) =>
    say("graph.words.the_first_of_zerosim_graph_names", { shown: formatExact(shown), all: formatExact(all) }),
  tooManyEdges: (/** @type {number} */ count) =>
    say("graph.words.edges_in_sight_too_many_to", { count: formatExact(count) }),
  hint: say("graph.words.drag_moves_wheel_zooms_arrows_walk"),
  filtered: (/** @type {number} */ count, /** @type {number} */ all) =>
    say("graph.words.of_events", { count: formatExact(count), all: formatExact(all) }),
  failed: say("graph.words.the_graph_cannot_be_shown"),
  otherVersion: say("shared.other_version"),
};

/** Columns of the tables below the graph. */
export const COLUMNS = {
  path: [say("graph.words.at_ms"), say("graph.words.ms"), say("graph.words.rank"), say("graph.words.cause"), say("graph.words.what")],
  ranks: [say("graph.words.rank"), say("graph.words.wall"), say("graph.words.compute"), say("graph.words.exposed"), say("graph.words.for_others"), say("graph.words.other"), say("graph.words.hidden"), say("graph.words.overlap")],
  exposed: [say("graph.words.rank"), say("graph.words.phase"), say("graph.words.purpose"), say("graph.words.waits"), say("graph.words.ms"), say("graph.words.of_its_exposed")],
  waited: [say("graph.words.rank"), say("graph.words.waited_for"), say("graph.words.ms")],
};

/** Of each rank's time, where bytes went between tiers. */
export const COPY_COLUMNS = [say("graph.words.copying"), say("graph.words.hidden_copying"), say("graph.words.overlap")];
export const COPY_CAPTION = say("graph.words.copying_stalled_while_bytes_moved_between");

/** @type {Readonly<Record<keyof typeof COLUMNS, string>>} */
export const CAPTIONS = {
  path: say("graph.words.the_critical_path_in_the_order"),
  ranks: say("graph.words.what_each_rank_s_time_went"),
  exposed: say("graph.words.exposed_communication_and_copying_what_each"),
  waited: say("graph.words.who_waited_for_whom_to_arrive"),
};

/** For a program without recorded waits. */
export const ARRIVALS = say("graph.words.whose_collectives_waited_for_whose_arrival");
