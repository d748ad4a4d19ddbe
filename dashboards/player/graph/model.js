// Reads a graph document into frequently used forms: typed arrays, lanes in the order of time, and the edges
// of each node.

import { NUMBERS_PER_PIECE, checkGraph } from "#player/graph/document.js";
import { say } from "#player/words.js";

/** @import { EdgeKind, GraphDocument, NodeKind } from "#player/graph/types.d.ts" */

/** The parallel activities of a rank: its program, its collectives, their messages, its copies. */
export const TRACKS = 5;
export const [PROGRAM, COLLECTIVES, MESSAGES, BUS, DISK] = [0, 1, 2, 3, 4];

/**
 * Nodes of one rank and track in the order of time.
 * @typedef {object} Track
 * @property {Int32Array} nodes
 * @property {Float64Array} latest by position: the latest end so far; it ascends
 */

/**
 * Edges by node: those of node k are edges[begin[k]] .. edges[begin[k + 1] - 1].
 * @typedef {{begin: Int32Array, edges: Int32Array}} Bundles
 */

/**
 * @typedef {object} GraphModel
 * @property {GraphDocument} doc
 * @property {number} numNodes
 * @property {number} numEdges
 * @property {readonly NodeKind[]} kinds by node
 * @property {Uint8Array} rank
 * @property {Float64Array} start
 * @property {Float64Array} end
 * @property {Float64Array} at when it can follow what brings it: the end of a wait and a receive
 * @property {Float64Array} moving of a call, when its last rank had arrived; else the start
 * @property {Uint8Array} onPath
 * @property {Uint8Array} track by node
 * @property {Track[]} tracks by rank and track
 * @property {Bundles} into
 * @property {Bundles} outOf
 * @property {Map<number, number[]>} callsOf by collective
 * @property {Map<number, number>} collectives by collective, its node
 * @property {Set<number>} pathCollectives those on the critical path
 * @property {number} messageNs how long a message usually takes; 0 if there is none
 * @property {readonly number[]} copyTracks those of copies that have any, over the bus, to a disk
 * @property {Float64Array} onPathNs by node, its time on the critical path
 * @property {readonly EdgeKind[]} edgeKinds by edge
 */

/**
 * Check a parsed document and make its model.
 * @param {unknown} document
 * @returns {GraphModel}
 * @throws {DocumentError} the document is not one that the page reads
 */
export function readGraph(document) {
  const doc = checkGraph(document);
  const { nodes, edges } = doc;
  const numNodes = nodes.kind.length;
  const kinds = nodes.kind.map((code) => doc.kinds[code]);
  const start = Float64Array.from(nodes.start);
  const end = Float64Array.from(nodes.end);
  const track = Uint8Array.from(kinds, (kind, node) => trackOf(kind, nodes.link[node]));
  const { moving, callsOf, collectives } = readArrivals(doc, kinds);
  const onPath = new Uint8Array(numNodes);
  const onPathNs = new Float64Array(numNodes);
  for (const node of doc.path?.nodes ?? []) {
    onPath[node] = 1;
  }
  const pieces = doc.path?.pieces ?? [];
  for (let i = 0; i < pieces.length; i += NUMBERS_PER_PIECE) {
    onPathNs[pieces[i]] += pieces[i + 3] - pieces[i + 2];
  }
  return {
    doc,
    numNodes,
    numEdges: edges.source.length,
    kinds,
    rank: Uint8Array.from(nodes.rank),
    start,
    end,
    at: Float64Array.from(kinds, (kind, k) => (kind === "wait" || kind === "receive" ? end[k] : start[k])),
    moving,
    onPath,
    track,
    tracks: readTracks(doc, track, start, end),
    into: bundle(edges.target, numNodes),
    outOf: bundle(edges.source, numNodes),
    callsOf,
    collectives,
    pathCollectives: new Set(
      (doc.path?.nodes ?? []).filter((node) => kinds[node] === "collective").map((node) => nodes.collective[node]),
    ),
    messageNs: usualMessage(track, start, end),
    copyTracks: [BUS, DISK].filter((one) => track.includes(one)),
    onPathNs,
    edgeKinds: edges.reason.map((code) => doc.reasons[code].kind),
  };
}

/** @param {NodeKind} kind @param {number} link */
function trackOf(kind, link) {
  if (kind === "copy") {
    return link === 1 ? DISK : BUS;
  }
  if (kind === "phase" || kind === "compute" || kind === "wait") {
    return PROGRAM;
  }
  return kind === "send" || kind === "receive" ? MESSAGES : COLLECTIVES;
}

/** The median. @param {Uint8Array} track @param {Float64Array} start @param {Float64Array} end */
function usualMessage(track, start, end) {
  const times = start.map((from, node) => end[node] - from).filter((_, node) => track[node] === MESSAGES);
  return times.sort()[times.length >> 1] ?? 0;
}

/** @param {GraphDocument} doc @param {readonly NodeKind[]} kinds */
function readArrivals({ nodes }, kinds) {
  const moving = Float64Array.from(nodes.start);
  /** @type {Map<number, number[]>} */
  const callsOf = new Map();
  /** @type {Map<number, number>} */
  const found = new Map();
  for (const [k, kind] of kinds.entries()) {
    const collective = nodes.collective[k];
    if (kind === "collective") {
      found.set(collective, k);
    } else if (kind === "call" && collective >= 0) {
      callsOf.set(collective, [...(callsOf.get(collective) ?? []), k]);
    }
  }
  for (const [collective, calls] of callsOf) {
    for (const call of calls) {
      const last = nodes.start[found.get(collective) ?? call];
      moving[call] = Math.max(nodes.start[call], Math.min(nodes.end[call], last));
    }
  }
  return { moving, callsOf, collectives: found };
}

/**
 * @param {GraphDocument} doc
 * @param {Uint8Array} track
 * @param {Float64Array} start
 * @param {Float64Array} end
 */
function readTracks({ ranks, nodes }, track, start, end) {
  /** @type {number[][]} */
  const found = Array.from({ length: ranks.length * TRACKS }, () => []);
  for (const [node, rank] of nodes.rank.entries()) {
    found[rank * TRACKS + track[node]].push(node);
  }
  return found.map((own) => {
    own.sort((a, b) => start[a] - start[b] || a - b);
    const latest = new Float64Array(own.length);
    let last = -Infinity;
    for (const [place, node] of own.entries()) {
      last = Math.max(last, end[node]);
      latest[place] = last;
    }
    return { nodes: Int32Array.from(own), latest };
  });
}

/** @param {readonly number[]} ends @param {number} numNodes @returns {Bundles} */
function bundle(ends, numNodes) {
  const begin = new Int32Array(numNodes + 1);
  for (const node of ends) {
    begin[node + 1] += 1;
  }
  for (let k = 0; k < numNodes; k += 1) {
    begin[k + 1] += begin[k];
  }
  const next = begin.slice();
  const edges = new Int32Array(ends.length);
  for (const [edge, node] of ends.entries()) {
    edges[next[node]] = edge;
    next[node] += 1;
  }
  return { begin, edges };
}

/** The edges of one node. @param {Bundles} bundles @param {number} node */
export function edgesOf({ begin, edges }, node) {
  return edges.subarray(begin[node], begin[node + 1]);
}

/**
 * The first position of a track that may reach into the time from `from` on.
 * @param {Track} track
 * @param {number} from
 */
export function firstIn({ latest }, from) {
  let low = 0;
  let high = latest.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (latest[middle] < from) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** The name of a node. @param {GraphModel} model @param {number} node */
export function labelOf({ doc }, node) {
  return doc.texts[doc.nodes.label[node]];
}

/** The unit that a node is about; "" if none. @param {GraphModel} model @param {number} node */
export function unitOf({ doc }, node) {
  return doc.texts[doc.nodes.unit[node]] ?? "";
}

/**
 * Why an edge's target follows its source, in words.
 * @param {GraphModel} model
 * @param {number} edge
 */
export function wordsOf(model, edge) {
  const { nodes, edges, reasons, ranks } = model.doc;
  const [source, target] = [edges.source[edge], edges.target[edge]];
  /** @type {Record<string, string>} */
  const fields = {
    source_rank: String(ranks[nodes.rank[source]]),
    target_rank: String(ranks[nodes.rank[target]]),
    source_unit: unitOf(model, source) || say("graph.model.a_unit"),
    target_unit: unitOf(model, target) || say("graph.model.a_unit"),
    shard: String(nodes.shard[target]),
  };
  return reasons[edges.reason[edge]].words.replace(/\{(\w+)\}/g, (_, name) => fields[name] ?? "");
}
