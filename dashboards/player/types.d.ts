/**
 * A replay document: one iteration of one trace, as `zerosim.view.replay` writes it and the player
 * reads it. Ranks, units, texts, steps and collectives are referred to by position in their lists.
 * Times are nanoseconds since the iteration began; "-1" means missing.
 */

/** "outside": the mark that ends an iteration, and all of a program that told of no phases. */
export type Phase = "forward" | "backward" | "update" | "setup" | "outside";
export type StepKind = "mark" | "compute" | "collective" | "transfer" | "copy";
/** Where bytes lie on a rank. */
export type Tier = "device" | "host" | "disk";
/** The links of bytes: between device and host, to and from a disk, from rank to rank. */
export type Link = "bus" | "storage" | "within a node" | "between nodes";

export interface ReplayDocument {
  schema: 2;
  /** The trace's name, as its reader knows it: a folder. */
  name: string;
  run: Run;
  /** Global ranks that the trace holds, ascending. */
  ranks: number[];
  /** Number of ranks that each represents: one of several equal ranks is shown. */
  stands_for: number[];
  units: Unit[];
  /** The bands of a rank card, from top to bottom; empty where a program's states are unknown. */
  states: State[];
  /** Weights that tensor parallel cuts. */
  matrices: Matrix[];
  /** Texts that steps refer to. Plain text: never markup. */
  texts: string[];
  steps: Step[];
  /** The steps grouped into beats: each step in one beat, in the order of the steps. */
  beats: Beat[];
  /**
   * By rank, then by step: how far that rank's own clock was, ns. The steps are consistent cuts
   * through the ranks' timelines, so the cut is a zigzag line: each rank at its own time.
   */
  local_ns: number[][];
  collectives: Collective[];
  /**
   * The cells before the first step: a digit each, a code of `CellCode`. Cell number
   * ((rank * states + state) * units + unit) * shards + shard.
   */
  cells: string;
  /** Shards of a unit: the number of ranks of the run, but where a program divides otherwise. */
  num_shards: number;
  timeline: Timeline;
  traffic: Traffic;
  /** Null where memory was not recorded. */
  memory: Memory | null;
  /** The result of `zerosim verify` for the whole trace in one sentence; null: nothing was predicted. */
  verdict: { headline: string; outcome: Outcome | null };
  /** Ten to twelve places of the iteration, in the order in which a tour stops at them. */
  tour: Stop[];
  /** Warnings for the reader: ranks that are missing, and the like. */
  notes: string[];
  /** A law that the trace breaks: the replay ends at this step. Null if there is none. */
  broken: { step: number; reason: string } | null;
}

export interface Run {
  model: string;
  /** -1 for a program that zerosim's engine did not run. */
  stage: number;
  /** "data parallel", "ZeRO-1", "ZeRO-2 + Offload" ...; "" as above. */
  stage_name: string;
  dtype: string;
  num_ranks: number;
  /** Ranks of each node; nodes are filled one after another. `num_ranks` if there is one node. */
  ranks_per_node: number;
  /** "ring", "gloo", "nccl", "other". */
  algorithm: string;
  backend: string;
  device: string;
  num_parameters: number;
  element_bytes: number;
  accumulate: number;
  /** All its times are predicted: it was simulated, or placed anew. */
  is_predicted: boolean;
  iteration: number;
  /** All iterations that can be shown. */
  iterations: number[];
  /** False if a rank failed, or its trace stops before its end. */
  complete: boolean;
  /** Mean loss of the iteration; null if the program reported none. */
  loss: number | null;
}

export interface Unit {
  name: string;
  elements: number;
  padded_elements: number;
  trainable: boolean;
  /** The class of its module: "TransformerEncoderLayer"; "" where that is not known. */
  module: string;
  /** Of a pipeline: "stage 1"; "" for no other. */
  stage: string;
  /** Of its first shard: shards have the hues of the ranks that keep them. */
  hue: number;
}

export interface Matrix {
  /** What steps call the unit that it is in; "" if it is in none. */
  unit_name: string;
  module: string;
  /** Cut along its output, or along its input. */
  style: "column" | "row";
  /** Of the whole weight: outputs, then inputs. */
  shape: number[];
  num_parts: number;
  /** Which part each rank holds; -1 for none. */
  parts: number[];
}

export interface State {
  /** "parameters" | "secondary parameters" | "gradients" | "fp32 master" | "momentum" | "variance", or
   *  "optimizer states", where the last three are one file */
  role: string;
  /** Name of the band if it holds no model state but the data sent by a student's program; else "". */
  name: string;
  /** States are in the order of their tiers; a run that keeps all on the device has only that. */
  tier: Tier;
  /** "parameters · bf16" */
  label: string;
  bytes_per_parameter: number;
}

/**
 * The state of one shard of one unit on a rank.
 *
 * 0 absent    nothing
 * 1 kept      solid: its own, kept from step to step
 * 2 gathered  hatched: another's, here only for now
 * 3 arriving  dashed: in flight to this rank
 * 4 partial   dotted: this rank's local gradient, not yet reduced
 * 5 summed    dotted, denser: a sum of several ranks' gradients, not of all
 * 6 reduced   solid: the sum of all ranks
 * 7 stale     pale: kept, but a value of before
 */
export type CellCode = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7;

export interface Step {
  kind: StepKind;
  phase: Phase;
  micro_step: number;
  /** Position in `units`; -1 if it concerns none or a bucket of several. */
  unit: number;
  /** What it is called: a unit, a bucket; "" if unknown. */
  unit_name: string;
  /** Of a copy, the tiers that it leads from and to; "" for all else. */
  origin: Tier | "";
  target: Tier | "";
  /** "all-gather" ...; "" for computations, copies and marks. */
  op: string;
  /** "gather parameters" ...; "" for computations and marks. */
  purpose: string;
  /** The collective that a hop belongs to; -1. */
  collective: number;
  /** Of a transfer, from 0; -1. */
  hop: number;
  /**
   * The moment that a still picture of this step shows: when the last rank began it.
   * Steps ascend by it.
   */
  time_ns: number;
  /** First begin and last end over the ranks. */
  start_ns: number;
  end_ns: number;
  /** The last step during which this one is still in progress: itself or a later one. */
  until: number;
  /** Positions in `texts`: a headline, what happens, why. */
  title: number;
  what: number;
  why: number;
  /** Concurrent waits with cause and duration, in `texts`; -1 if there are none. */
  waiting: number;
  /** The source line of the request, in `texts`; -1. */
  source: number;
  /** Positions in `ranks` of those that take part. */
  ranks: number[];
  /**
   * Messages, six numbers each: sender and receiver (positions in `ranks`; -1 if its rank is
   * not in the trace), shard (-1 if unknown), bytes (0 of one that is waited for and was not sent),
   * start_ns and end_ns.
   */
  packets: number[];
  /** Bytes that each rank sends if no messages were recorded (native calls); else empty. */
  sent: number[];
  /** Waits during this step, three numbers each: rank, start_ns, end_ns; never longer than their cause. */
  waits: number[];
  /** Copies of ranks between their tiers, four numbers each: rank, bytes, start_ns, end_ns. */
  copies: number[];
  /** The ledgers of a copy; null for all else. */
  copy: CopyLedger | null;
  /** Cells that change as this step begins, two numbers each: cell, new code. */
  cells: number[];
  /** Units with gathered parameters that are freed at the end of this step: positions in `units`.
   *  Those cells change as the next step begins. */
  freed: number[];
}

/**
 * The actions of a beat. A unit's parameters are gathered, it is computed, its gathered parameters are freed;
 * gradients are reduced, the optimizer updates, bytes are copied between tiers; pipelines
 * send, tensor parallel ranks combine; all agree on a number, or communicate for other purposes.
 */
export type Sign =
  | "gather"
  | "compute"
  | "free"
  | "reduce"
  | "update"
  | "copy"
  | "send"
  | "combine"
  | "agree"
  | "exchange"
  | "begin"
  | "end"
  | "stand";

/** Steps that follow each other, which a class would call one thing. */
export interface Beat {
  /** First and last step; both belong to it. */
  first: number;
  last: number;
  /** The step that it is about: a still picture of the beat shows it. */
  main: number;
  /** At least one, in the order in which it is done. */
  signs: Sign[];
  /** Its unit's label in a strip: "3", "emb"; "" for several, and for none. */
  label: string;
  /** Positions in `units`; empty for a program that told of none. */
  units: number[];
  phase: Phase;
  micro_step: number;
  /** Other units with gathered parameters freed meanwhile, by their labels in a strip. */
  freed: string[];
  /** Positions in `texts`: a headline, a sentence of about twenty words. */
  title: number;
  what: number;
  /** Concurrent actions, in `texts`; -1. */
  meanwhile: number;
  /** Waits in it with cause and duration, in `texts`; -1 if there are none. */
  waiting: number;
  /** The module whose units it processes one after another: tile by tile; "" for any other. */
  within: string;
  /** It gathers a unit of a later computation, during another computation. */
  is_prefetch: boolean;
}

/**
 * What a stop of a tour is about: the run and what each rank keeps, what has just been freed, that
 * forward is over, that the second micro-step begins, a beat that happens for the first time, that
 * the last gradients are reduced, the longest wait, the peak of memory, what was sent in all.
 */
export type About = "run" | "free" | "turn" | "again" | "beat" | "reduced" | "wait" | "peak" | "sum";

/** One place of a tour. Plain text: never markup. */
export interface Stop {
  about: About;
  step: number;
  /** A headline, and a few sentences. */
  title: string;
  text: string;
}

/** The outcome of a verdict, as everywhere in zerosim. */
export type Outcome = "as predicted" | "differs, every byte explained" | "unexplained";

/** By rank; null where not known or not measured. */
export interface CopyLedger {
  /** A rank's copies, in symbols and with numbers; in `texts`. -1 if no law is known. */
  formula: number;
  filled: number;
  theory: (number | null)[];
  trace: (number | null)[];
  /** The kernel's count, for copies from and to a disk. */
  counted: (number | null)[];
  /** A file's overhead besides its contents, part of `counted`; 0 on the bus. */
  framing: (number | null)[];
}

export interface Collective {
  unit: number;
  unit_name: string;
  op: string;
  purpose: string;
  phase: Phase;
  algorithm: string;
  /** First and last step of it; hops in between. */
  first: number;
  last: number;
  num_hops: number;
  /** Shards of a unit in the part that a rank of a ring sends: several in a ring of only some ranks. */
  shards_each: number;
  payload_bytes: number;
  elements: number;
  element_bytes: number;
  dtype: string;
  /** Of an element that was quantized for its way; 0 if it was not. */
  bits: number;
  /** Bytes sent by a rank, as a formula in symbols and the same with numbers; in `texts`.
   *  -1 where no law is known. */
  formula: number;
  filled: number;
  /** Bytes sent, by rank; null where not known or not measured. */
  theory: (number | null)[];
  trace: (number | null)[];
  wire: (number | null)[];
  /** Bytes that the backend's algorithm adds to the trace, part of `wire`; null if unknown. */
  excess: (number | null)[];
  /** Whether it does so by implementing a larger operation than requested. */
  is_more: boolean;
  /** Bytes that the backend's protocol adds, part of `wire`; null if unknown. */
  framing: (number | null)[];
}

export interface Timeline {
  duration_ns: number;
  /** Seven numbers each: rank, lane, kind, phase, start_ns, end_ns, step.
   *  lane 0 the program, 1 communication, 2 copies over the bus, 3 copies to and from the disk;
   *  kind 0 compute, 1 collective, 2 wait, 3 copy; an update that is computed beside the program
   *  is in lane 2;
   *  phase 0 forward, 1 backward, 2 update, 3 none of these. */
  bars: number[];
  /** Of a GPU, when the host launched what the device executed; four numbers each: rank, phase, from_ns, to_ns.
   *  Empty without device times. */
  launches: number[];
  /** The critical path, four numbers each: rank, cause, start_ns, end_ns.
   *  cause 0 compute, 1 communication, 2 waiting, 3 other, 4 copying. Empty if unknown. */
  path: number[];
}

export interface Traffic {
  /** "2Ψ(N−1)/N"; "" without a law. */
  law: string;
  /** Bytes that a rank sends in the iteration under the law; null without a law. */
  law_bytes: number | null;
  /** Bytes of all parameters in the compute dtype: one Ψ; 0 if unknown. */
  psi_bytes: number;
  /** Bytes that each rank sent in the whole iteration, according to `zerosim verify`; null if unknown. */
  total: (number | null)[];
  /** The links that bytes go over, if there are others than messages within one node. */
  links: LinkLaw[];
}

export interface LinkLaw {
  link: Link;
  /** "4 BΨ/N"; "" if only its bytes are known. */
  law: string;
  /** By rank; null without a law. */
  law_bytes: (number | null)[];
}

export interface Memory {
  /** Of each series, in the order in which they are stacked, tier by tier. */
  roles: string[];
  /** Of each series. */
  tiers: Tier[];
  /** By rank; null where a rank recorded none. */
  ranks: (RankMemory | null)[];
  /** Of model states on the device: "16Ψ/N"; "" without a law. */
  law: string;
  law_bytes: number | null;
  /** Of every tier where model states should be, the device first; empty without a law. */
  laws: { tier: Tier; law: string; law_bytes: number }[];
}

export interface RankMemory {
  times_ns: number[];
  /** By series, then by time. */
  bytes: number[][];
  peak_ns: number;
  peak_bytes: number;
  /** The step at which the peak is. */
  peak_step: number;
  /** The peak's cause in words, in `texts`. */
  cause: number;
}

/** Some runs under one cursor, as `zerosim.view.replay.alignment` writes them. */
export interface Alignment {
  moments: Moment[];
  /** By moment: a headline, and its meaning. Plain text: never markup. */
  titles: string[];
  whats: string[];
  runs: AlignedRun[];
  /** Global ranks that all runs hold, ascending. */
  ranks: number[];
  notes: string[];
}

export type What = "begins" | "computes" | "computed" | "reduced" | "gathered" | "over";

export interface Moment {
  phase: Phase;
  what: What;
  /** The unit's name; "" for a phase. */
  unit: string;
  micro_step: number;
  nth: number;
}

export interface AlignedRun {
  /** The trace's name. */
  name: string;
  /** Its distinguishing title: "ZeRO-3", "ZeRO-3 · gloo". */
  title: string;
  /** Of its model states on a rank: "16Ψ/N"; "" and null without a law. */
  law: string;
  law_bytes: number | null;
  /** By moment: its step, whether it has the moment, and its next action. */
  steps: number[];
  came: boolean[];
  follows: string[];
}
