// The filter: which nodes and which sorts of edges. Pure.

import { EDGE_KINDS } from "#player/graph/document.js";
import { unitOf } from "#player/graph/model.js";

/** @import { GraphModel } from "#player/graph/model.js" */
/** @import { EdgeKind } from "#player/graph/types.d.ts" */

/**
 * "" and -1: all.
 * @typedef {object} Filter
 * @property {string} kind
 * @property {string} phase
 * @property {string} unit
 * @property {number} rank a position in `ranks`
 * @property {boolean} critical only nodes on the critical path
 * @property {boolean} waits only waits
 * @property {readonly EdgeKind[]} edges sorts that are drawn
 */

/** @type {Readonly<Filter>} */
export const ALL = { kind: "", phase: "", unit: "", rank: -1, critical: false, waits: false, edges: ["match"] };

/** Whether a filter leaves nodes out. @param {Filter} filter */
export function leavesOut({ kind, phase, unit, rank, critical, waits }) {
  return kind !== "" || phase !== "" || unit !== "" || rank >= 0 || critical || waits;
}

/**
 * Whether something waits there: a wait, and an arrival before the last one.
 * @param {GraphModel} model
 * @param {number} node
 */
export function waitsAt({ kinds, start, end, moving }, node) {
  return kinds[node] === "wait" ? end[node] > start[node] : moving[node] > start[node];
}

/**
 * By node, 1 if it passes.
 * @param {GraphModel} model
 * @param {Filter} filter
 * @returns {Uint8Array}
 */
export function passes(model, filter) {
  const { numNodes, kinds, rank, onPath, doc } = model;
  const passed = new Uint8Array(numNodes);
  for (let node = 0; node < numNodes; node += 1) {
    passed[node] = Number(
      (filter.kind === "" || kinds[node] === filter.kind) &&
        (filter.rank < 0 || rank[node] === filter.rank) &&
        (filter.phase === "" || doc.phases[doc.nodes.phase[node]] === filter.phase) &&
        (filter.unit === "" || unitOf(model, node) === filter.unit) &&
        (!filter.critical || onPath[node] === 1) &&
        (!filter.waits || waitsAt(model, node)),
    );
  }
  return passed;
}

/** The units that occur, as they come. @param {GraphModel} model @returns {string[]} */
export function unitsIn(model) {
  const { doc } = model;
  return [...new Set(doc.nodes.unit)].filter((text) => text >= 0).map((text) => doc.texts[text]);
}

/** The kinds of nodes that occur. @param {GraphModel} model */
export function kindsIn({ doc, kinds }) {
  const seen = new Set(kinds);
  return doc.kinds.filter((kind) => seen.has(kind));
}

/** The phases that occur. @param {GraphModel} model */
export function phasesIn({ doc }) {
  const seen = new Set(doc.nodes.phase);
  return doc.phases.filter((_, code) => seen.has(code));
}

/** The sorts of edges that occur. @param {GraphModel} model */
export function edgeKindsIn({ edgeKinds }) {
  const seen = new Set(edgeKinds);
  return EDGE_KINDS.filter((kind) => seen.has(kind));
}
