/**
 * A graph document: the event graph of one iteration, as `zerosim.view.replay.graphview` writes it and
 * the Graph page reads it. Nodes and edges are columns: entry k of each list belongs to node (edge)
 * k. Ranks are positions in `ranks`, texts positions in `texts`; times are nanoseconds since the
 * iteration began; "-1" means missing.
 */

import type { Phase } from "#player/types.d.ts";

export type NodeKind =
  | "phase" | "compute" | "wait" | "call" | "collective" | "send" | "receive" | "copy" | "mark";
/** Why one node follows another: the four sorts of reason. */
export type EdgeKind = "program order" | "match" | "message" | "tensor lifetime";
export type Cause = "compute" | "communication" | "scheduling" | "other" | "copying";

export interface GraphDocument {
  schema: 1;
  /** The trace's name, as its reader knows it. */
  name: string;
  /** -1 for a program without iterations. */
  iteration: number;
  iterations: number[];
  /** The first sentence of `zerosim graph`, in parts: the duration, its causes, the waits between ranks. */
  clauses: string[];
  /** All its times are predicted: it was simulated, or placed anew. */
  is_predicted: boolean;
  /** Whether the graph passes all checks; if not, `violations` has the reasons. */
  holds: boolean;
  violations: string[];
  notes: string[];
  /** Global ranks that the trace holds, ascending. */
  ranks: number[];
  duration_ns: number;
  /** The meaning of the codes in `nodes` and `path`. */
  kinds: NodeKind[];
  phases: Phase[];
  /** "copying" only if it takes time. */
  causes: Cause[];
  /** What the codes in `edges.reason` mean. In `words` stand {source_rank}, {target_rank},
   *  {source_unit}, {target_unit} and {shard} for what the two nodes are. */
  reasons: { kind: EdgeKind; words: string }[];
  nodes: {
    kind: number[];
    /** Of a collective, the rank that arrived last. */
    rank: number[];
    phase: number[];
    start: number[];
    end: number[];
    /** How much later it could have been over with the iteration's end unchanged; -1 unknown. */
    slack: number[];
    /** A number that a collective, its calls, its messages and the waits for it share. */
    collective: number[];
    /** Its step in the replay of this iteration. */
    step: number[];
    label: number[];
    unit: number[];
    shard: number[];
    /** Of a copy: 0 over the bus, 1 to or from the disk. */
    link: number[];
    bytes: number[];
    source: number[];
  };
  edges: {
    source: number[];
    target: number[];
    reason: number[];
    /** When its data was available. */
    ready: number[];
    /** By node, not by edge: the edge that was ready last. */
    binding: number[];
  };
  /** Null if unknown; `notes` or `violations` give the reason. */
  path: CriticalPath | null;
  time: Time;
  texts: string[];
}

export interface CriticalPath {
  duration_ns: number;
  /** In the order of time. */
  nodes: number[];
  /** Five numbers each, without gaps: node, cause, start, end, what it is (in `texts`). */
  pieces: number[];
  /** By cause; they sum to the duration. */
  by_cause_ns: number[];
}

export interface Time {
  /** False: `ranks` and `exposed` are empty, and `waited` compares arrivals only. */
  waits_recorded: boolean;
  ranks: RankTime[];
  /** Three numbers each, the longest first: waiting rank, awaited rank, ns. */
  waited: number[];
  exposed: Exposed[];
}

/** compute + exposed + copying + waiting + other = wall, ns; see `zerosim.analysis.Budget`. */
export interface RankTime {
  wall_ns: number;
  compute_ns: number;
  exposed_ns: number;
  waiting_ns: number;
  other_ns: number;
  hidden_ns: number;
  /** Which part of the communication is hidden; null if there was none. */
  overlap: number | null;
  /** Stalled while bytes went between tiers; and the rest of the copying. */
  copying_ns: number;
  hidden_copying_ns: number;
  copying_overlap: number | null;
}

/** What a rank was stalled for while bytes moved; of each rank they sum to its exposed_ns and, of
 *  copies, to its copying_ns. */
export interface Exposed {
  rank: number;
  phase: Phase;
  purpose: string;
  num_waits: number;
  exposed_ns: number;
  is_copying: boolean;
}
