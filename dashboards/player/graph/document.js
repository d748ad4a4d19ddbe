// Checks a graph document before anything is drawn. types.d.ts has the meaning of the fields.

import {
  atLeast, finite, flag, index, indexOrNone, list, nullable, oneOf, record, rows, text, whole,
} from "#player/checks.js";

/** @import { EdgeKind, GraphDocument, NodeKind } from "#player/graph/types.d.ts" */

export const NUMBERS_PER_PIECE = 5;
export const NUMBERS_PER_WAIT = 3;
/** @type {readonly NodeKind[]} */
export const KINDS = ["phase", "compute", "wait", "call", "collective", "send", "receive", "copy", "mark"];
/** @type {readonly EdgeKind[]} */
export const EDGE_KINDS = ["program order", "match", "message", "tensor lifetime"];
export const CAUSES = /** @type {const} */ (["compute", "communication", "scheduling", "other", "copying"]);
const PHASES = ["forward", "backward", "update", "setup", "outside"];

/**
 * Check a parsed document.
 * @param {unknown} value
 * @returns {GraphDocument}
 * @throws {DocumentError} naming the first invalid field, and the expected value
 */
export function checkGraph(value) {
  record({ schema: oneOf([1]) })(value, "");
  outline(value, "");
  const doc = /** @type {GraphDocument} */ (value);
  const ranks = doc.ranks.length;
  const texts = doc.texts.length;
  const nodes = doc.nodes.kind.length;
  const edges = doc.edges.source.length;
  /** @param {import("#player/checks.js").Check} check */
  const byNode = (check) => list(check, nodes);
  /** @param {import("#player/checks.js").Check} check */
  const byEdge = (check) => list(check, edges);
  record({
    kind: byNode(index(doc.kinds.length)),
    rank: byNode(index(ranks)),
    phase: byNode(index(doc.phases.length)),
    start: byNode(finite),
    end: byNode(finite),
    slack: byNode(atLeast(-1)),
    collective: byNode(whole(-1)),
    step: byNode(whole(-1)),
    label: byNode(index(texts)),
    unit: byNode(indexOrNone(texts)),
    shard: byNode(whole(-1)),
    link: byNode(whole(-1, 2)),
    bytes: byNode(atLeast(0)),
    source: byNode(indexOrNone(texts)),
  })(doc.nodes, "nodes");
  record({
    source: byEdge(index(nodes)),
    target: byEdge(index(nodes)),
    reason: byEdge(index(doc.reasons.length)),
    ready: byEdge(finite),
    binding: byNode(indexOrNone(edges)),
  })(doc.edges, "edges");
  nullable(
    record({
      duration_ns: atLeast(0),
      nodes: list(index(nodes)),
      pieces: rows([index(nodes), index(doc.causes.length), finite, finite, index(texts)]),
      by_cause_ns: list(atLeast(0), doc.causes.length),
    }),
  )(doc.path, "path");
  record({
    waits_recorded: flag,
    ranks: list(rankTime, doc.time.waits_recorded ? ranks : 0),
    waited: rows([index(ranks), index(ranks), atLeast(0)]),
    exposed: list(
      record({ rank: index(ranks), phase, purpose: text, num_waits: whole(1), exposed_ns: atLeast(0), is_copying: flag }),
    ),
  })(doc.time, "time");
  return doc;
}

const phase = oneOf(PHASES);
const rankTime = record({
  wall_ns: atLeast(0),
  compute_ns: atLeast(0),
  exposed_ns: atLeast(0),
  waiting_ns: atLeast(0),
  other_ns: atLeast(0),
  hidden_ns: atLeast(0),
  overlap: nullable(atLeast(0)),
  copying_ns: atLeast(0),
  hidden_copying_ns: atLeast(0),
  copying_overlap: nullable(atLeast(0)),
});

/** Checks that do not need the lengths of the lists. */
const outline = record({
  name: text,
  iteration: whole(-1),
  iterations: list(whole(0)),
  clauses: list(text),
  holds: flag,
  is_predicted: flag,
  violations: list(text),
  notes: list(text),
  ranks: list(whole(0)),
  duration_ns: atLeast(0),
  kinds: list(oneOf(KINDS)),
  phases: list(phase),
  causes: list(oneOf(CAUSES)),
  reasons: list(record({ kind: oneOf(EDGE_KINDS), words: text })),
  nodes: record({ kind: list(whole(0)) }),
  edges: record({ source: list(whole(0)) }),
  path: nullable(record({})),
  time: record({ waits_recorded: flag }),
  texts: list(text),
});
