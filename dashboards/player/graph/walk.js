// From node to node: along a lane, to the next lane, along the edges. Pure.

import { MESSAGES, TRACKS, edgesOf, firstIn } from "#player/graph/model.js";

/** @import { GraphModel } from "#player/graph/model.js" */

/**
 * The next node of the same lane that passes; the node itself if there is none.
 * @param {GraphModel} model
 * @param {Uint8Array} passed
 * @param {number} node
 * @param {1 | -1} way
 */
export function along(model, passed, node, way) {
  const { nodes } = trackOf(model, node);
  for (let place = nodes.indexOf(node) + way; place >= 0 && place < nodes.length; place += way) {
    if (passed[nodes[place]]) {
      return nodes[place];
    }
  }
  return node;
}

/**
 * The first or the last node of a lane that passes.
 * @param {GraphModel} model
 * @param {Uint8Array} passed
 * @param {number} node
 * @param {1 | -1} way -1: the first
 */
export function toEnd(model, passed, node, way) {
  const own = [...trackOf(model, node).nodes].filter((one) => passed[one]);
  return (way < 0 ? own[0] : own[own.length - 1]) ?? node;
}

/**
 * The node of the next lane, up or down, that is nearest in time.
 * @param {GraphModel} model
 * @param {Uint8Array} passed
 * @param {number} node
 * @param {1 | -1} way
 * @param {boolean} withMessages whether the lanes of messages are seen
 */
export function across(model, passed, node, way, withMessages) {
  const { rank, track, start, tracks } = model;
  const own = rank[node] * TRACKS + track[node];
  for (let lane = own + way; lane >= 0 && lane < tracks.length; lane += way) {
    if (lane % TRACKS === MESSAGES && !withMessages) {
      continue;
    }
    const found = nearest(model, passed, lane, start[node]);
    if (found >= 0) {
      return found;
    }
  }
  return node;
}

/**
 * The node of a lane that passes and is nearest to a moment; -1 if there is none.
 * @param {GraphModel} model
 * @param {Uint8Array} passed
 * @param {number} lane
 * @param {number} ns
 */
export function nearest({ tracks, start, end }, passed, lane, ns) {
  const track = tracks[lane];
  let best = -1;
  let least = Infinity;
  for (const node of track.nodes) {
    const far = Math.max(0, start[node] - ns, ns - end[node]);
    if (passed[node] && far < least) {
      best = node;
      least = far;
    }
  }
  return best;
}

/** The node before or after on the critical path; the node itself if there is none.
 *  @param {GraphModel} model @param {number} node @param {1 | -1} way */
export function alongPath({ doc, start }, node, way) {
  const nodes = doc.path?.nodes ?? [];
  const place = nodes.indexOf(node);
  if (place >= 0) {
    return nodes[place + way] ?? node;
  }
  if (node < 0) {
    return nodes[0] ?? node;
  }
  const after = nodes.findIndex((one) => start[one] >= start[node]);
  const next = after < 0 ? nodes.length : after;
  return nodes[way > 0 ? next : next - 1] ?? node;
}

/**
 * Neighbours of a node: edges into it, what bound it first; and edges out of it, in order of time.
 * @param {GraphModel} model
 * @param {number} node
 */
export function neighbours(model, node) {
  const { doc, at, into, outOf } = model;
  const { source, target, ready, binding } = doc.edges;
  const bound = binding[node];
  const before = [...edgesOf(into, node)].sort(
    (a, b) => Number(b === bound) - Number(a === bound) || ready[b] - ready[a] || source[a] - source[b],
  );
  const after = [...edgesOf(outOf, node)].sort((a, b) => {
    const [one, other] = [target[a], target[b]];
    return (
      Number(binding[other] === b) - Number(binding[one] === a) || at[one] - at[other] || one - other
    );
  });
  return { before, after };
}

/**
 * The node at a moment of a lane, within a distance; of several the shortest. -1 if there is none.
 * @param {GraphModel} model
 * @param {Uint8Array} passed
 * @param {number} lane
 * @param {number} ns
 * @param {number} within ns
 */
export function nodeAt({ tracks, start, end }, passed, lane, ns, within) {
  const track = tracks[lane];
  let best = -1;
  let least = Infinity;
  for (let place = firstIn(track, ns - within); place < track.nodes.length; place += 1) {
    const node = track.nodes[place];
    if (start[node] > ns + within) {
      break;
    }
    const far = Math.max(0, start[node] - ns, ns - end[node]);
    const cost = far * 1e6 + (end[node] - start[node]);
    if (passed[node] && far <= within && cost < least) {
      best = node;
      least = cost;
    }
  }
  return best;
}

/** @param {GraphModel} model @param {number} node */
function trackOf({ rank, track, tracks }, node) {
  return tracks[rank[node] * TRACKS + track[node]];
}
