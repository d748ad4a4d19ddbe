// A small graph, made by hand: rank 1 computes for 80 ns, rank 0 for 40 ns; then both reduce, with
// a message each way, and compute again. Rank 0 waits for rank 1, which is on the critical path.

/** @import { GraphDocument, NodeKind } from "#player/graph/types.d.ts" */

/** Each line a node: kind, rank, start, end, slack, label, unit.
 *  @type {readonly [NodeKind, number, number, number, number, string, string][]} */
const NODES = [
  ["phase", 0, 0, 0, 40, "forward begins", ""],
  ["compute", 0, 10, 50, 40, "forward of a", "a"],
  ["call", 0, 60, 130, 40, "arrival at all-reduce of a", "a"],
  ["wait", 0, 58, 135, 5, "wait for all-reduce of a", "a"],
  ["compute", 0, 140, 190, 5, "forward of b", "b"],
  ["phase", 1, 0, 0, 0, "forward begins", ""],
  ["compute", 1, 10, 90, 0, "forward of a", "a"],
  ["call", 1, 100, 128, 0, "arrival at all-reduce of a", "a"],
  ["collective", 1, 100, 130, 0, "all-reduce of a", "a"],
  ["wait", 1, 97, 131, 0, "wait for all-reduce of a", "a"],
  ["compute", 1, 140, 200, 0, "forward of b", "b"],
  ["send", 0, 105, 115, 5, "send shard 0 to rank 1", "a"],
  ["receive", 1, 105, 115, 5, "receive shard 0 from rank 0", "a"],
];

export const N = /** @type {const} */ ({
  begin0: 0, a0: 1, call0: 2, wait0: 3, b0: 4, begin1: 5, a1: 6, call1: 7, all: 8, wait1: 9, b1: 10,
  send: 11, receive: 12,
});

/** Each line an edge: source, target, reason, ready. */
const EDGES = [
  [N.begin0, N.a0, 0, 0],
  [N.a0, N.call0, 0, 55],
  [N.call0, N.all, 1, 60],
  [N.a0, N.wait0, 0, 58],
  [N.all, N.wait0, 2, 130],
  [N.wait0, N.b0, 0, 135],
  [N.begin1, N.a1, 0, 0],
  [N.a1, N.call1, 0, 95],
  [N.call1, N.all, 1, 100],
  [N.all, N.wait1, 2, 128],
  [N.wait1, N.b1, 0, 131],
  [N.call0, N.send, 0, 105],
  [N.send, N.receive, 3, 105],
];

const NO_COPIES = { copying_ns: 0, hidden_copying_ns: 0, copying_overlap: null };

/** A new document each time: a test may damage it. @returns {GraphDocument} */
export function makeGraph() {
  /** @type {string[]} */
  const texts = [];
  /** @param {string} text */
  const number = (text) => {
    if (text && !texts.includes(text)) {
      texts.push(text);
    }
    return text ? texts.indexOf(text) : -1;
  };
  /** @type {GraphDocument["kinds"]} */
  const kinds = ["phase", "compute", "wait", "call", "collective", "send", "receive", "copy", "mark"];
  const label = NODES.map((node) => number(node[5]));
  const unit = NODES.map((node) => number(node[6]));
  const pieces = [
    [N.a1, 3, 0, 10], [N.a1, 0, 10, 90], [N.call1, 2, 90, 100], [N.all, 1, 100, 128],
    [N.wait1, 2, 128, 131], [N.b1, 3, 131, 140], [N.b1, 0, 140, 200],
  ].flatMap((piece) => [...piece, label[piece[0]]]);
  return {
    schema: 1,
    name: "sample",
    iteration: 2,
    iterations: [0, 1, 2],
    clauses: ["Iteration 2 took 0.2 ms", "its critical path is compute", "rank 0 waited for rank 1"],
    holds: true,
    is_predicted: false,
    violations: [],
    notes: [],
    ranks: [0, 1],
    duration_ns: 200,
    kinds,
    phases: ["setup", "forward", "backward", "update", "outside"],
    causes: ["compute", "communication", "scheduling", "other"],
    reasons: [
      { kind: "program order", words: "rank {target_rank} continues" },
      { kind: "match", words: "rank {source_rank} has arrived" },
      { kind: "match", words: "it completes on rank {target_rank}" },
      { kind: "message", words: "message from rank {source_rank} to rank {target_rank}" },
    ],
    nodes: {
      kind: NODES.map((node) => kinds.indexOf(node[0])),
      rank: NODES.map((node) => node[1]),
      phase: NODES.map(() => 1),
      start: NODES.map((node) => node[2]),
      end: NODES.map((node) => node[3]),
      slack: NODES.map((node) => node[4]),
      collective: NODES.map((node) => (["call", "collective", "wait", "send", "receive"].includes(node[0]) ? 0 : -1)),
      step: NODES.map((_, node) => node),
      label,
      unit,
      shard: NODES.map((node) => (node[0] === "send" || node[0] === "receive" ? 0 : -1)),
      link: NODES.map(() => -1),
      bytes: NODES.map(() => 0),
      source: NODES.map(() => -1),
    },
    edges: {
      source: EDGES.map((edge) => edge[0]),
      target: EDGES.map((edge) => edge[1]),
      reason: EDGES.map((edge) => edge[2]),
      ready: EDGES.map((edge) => edge[3]),
      binding: NODES.map((_, node) => {
        const into = EDGES.flatMap((edge, k) => (edge[1] === node ? [k] : []));
        return into.sort((a, b) => EDGES[b][3] - EDGES[a][3])[0] ?? -1;
      }),
    },
    path: {
      duration_ns: 200,
      nodes: [N.begin1, N.a1, N.call1, N.all, N.wait1, N.b1],
      pieces,
      by_cause_ns: [140, 28, 13, 19],
    },
    time: {
      waits_recorded: true,
      ranks: [
        { wall_ns: 200, compute_ns: 90, exposed_ns: 35, waiting_ns: 40, other_ns: 35, hidden_ns: 0, overlap: 0, ...NO_COPIES },
        { wall_ns: 200, compute_ns: 140, exposed_ns: 34, waiting_ns: 0, other_ns: 26, hidden_ns: 0, overlap: null, ...NO_COPIES },
      ],
      waited: [0, 1, 40],
      exposed: [{ rank: 0, phase: "forward", purpose: "reduce gradients", num_waits: 1, exposed_ns: 35, is_copying: false }],
    },
    texts,
  };
}
