// Where the lanes of the graph lie, and where in them nodes and the ends of edges are. Pure.

import { COLLECTIVES, MESSAGES, PROGRAM } from "#player/graph/model.js";

/** @import { Lanes, TimeWindow } from "#player/draw/lanes.js" */
/** @import { Fonts } from "#player/draw/text.js" */
/** @import { GraphModel } from "#player/graph/model.js" */

const MOST_ROW = 260;
/** Messages are drawn where one of usual length is so wide, and a lane so high. */
const MESSAGE_WIDTH = 40;
const MESSAGE_LANE = 18;

/**
 * The lanes of all ranks, or of one. `communication` is what collectives have, with their messages
 * below them where these are drawn. Copies have lanes of their own under it.
 * @typedef {Lanes & {messages: boolean, calls: number, copyTracks: readonly number[]}} GraphLanes
 */

/**
 * @param {object} given
 * @param {number} given.width
 * @param {number} given.height
 * @param {number} given.numRanks
 * @param {number} given.only the rank that alone is shown; -1: all
 * @param {number} given.nameWidth
 * @param {Fonts} given.fonts
 * @param {number} given.messageNs how long a message usually takes; 0 if there is none
 * @param {number} given.span ns that are shown
 * @param {readonly number[]} [given.copyTracks] of copies that there are
 * @returns {GraphLanes}
 */
export function layoutGraph({ width, height, numRanks, only, nameWidth, fonts, messageNs, span, copyTracks = [] }) {
  const axisY = Math.max(0, Math.round(height - fonts.size - 9));
  const count = only < 0 ? numRanks : 1;
  const exact = Math.min(MOST_ROW, axisY / count);
  const rowHeight = exact >= 8 ? Math.floor(exact) : exact;
  const gap = rowHeight >= 40 ? Math.round(rowHeight * 0.14) : rowHeight >= 10 ? 3 : rowHeight >= 5 ? 1 : 0;
  const seam = rowHeight >= 40 ? 9 : rowHeight >= 16 ? 3 : rowHeight >= 10 ? 2 : 0;
  const copySeam = copyTracks.length > 0 ? copySeamOf(rowHeight) : 0;
  const copies = Math.round((rowHeight - gap - seam) * [0, 0.22, 0.34][copyTracks.length]);
  const lane = rowHeight - gap - seam - copies - copySeam;
  const program = rowHeight >= 8 ? Math.round(lane * 0.48) : lane * 0.55;
  const communication = lane - program;
  const left = Math.ceil(nameWidth) + 14;
  const inner = Math.max(10, width - left - 6);
  const messages = communication >= MESSAGE_LANE && messageNs * (inner / span) >= MESSAGE_WIDTH;
  return {
    left,
    width: inner,
    axisY,
    rowHeight,
    first: Math.max(0, only),
    count,
    labelEvery: [1, 2, 4, 8, 16].find((every) => every * rowHeight >= fonts.size + 2) ?? 32,
    launches: 0,
    program,
    communication,
    seam,
    messages,
    copies,
    copyLanes: copyTracks.length,
    copyTracks,
    calls: messages ? Math.round(communication * 0.5) : communication,
  };
}

/** Room above the lanes of copies. @param {number} rowHeight */
function copySeamOf(rowHeight) {
  return rowHeight >= 16 ? 3 : 0;
}

/** Whether a rank has a row. @param {GraphLanes} lanes @param {number} rank */
export function isShown({ first, count }, rank) {
  return rank >= first && rank < first + count;
}

/**
 * Top and height of a track of a rank.
 * @param {GraphLanes} lanes
 * @param {number} rank
 * @param {number} track
 */
export function trackBox(lanes, rank, track) {
  const top = (rank - lanes.first) * lanes.rowHeight;
  if (track === PROGRAM) {
    return { y: top, h: lanes.program };
  }
  const below = top + lanes.program + lanes.seam;
  const place = lanes.copyTracks.indexOf(track);
  if (place >= 0) {
    const h = lanes.copies / lanes.copyTracks.length;
    const first = top + lanes.program + lanes.seam + lanes.communication + copySeamOf(lanes.rowHeight);
    return { y: first + place * h, h: Math.max(1, h - (h > 6 ? 1.5 : 0)) };
  }
  return track === MESSAGES && lanes.messages
    ? { y: below + lanes.calls, h: lanes.communication - lanes.calls }
    : { y: below, h: lanes.calls };
}

/** The line of the critical path on a rank. @param {GraphLanes} lanes @param {number} rank */
export function seamY({ first, rowHeight, program, seam }, rank) {
  return (rank - first) * rowHeight + program + seam / 2;
}

/**
 * The rank and track at a height; track -1 between them. @param {GraphLanes} lanes @param {number} y
 */
export function laneAt(lanes, y) {
  const row = Math.max(0, Math.min(lanes.count - 1, Math.floor(y / lanes.rowHeight)));
  const rank = lanes.first + row;
  const inside = y - row * lanes.rowHeight;
  if (inside < lanes.program + lanes.seam / 2) {
    return { rank, track: PROGRAM };
  }
  const { copyTracks, copies } = lanes;
  const below = inside - lanes.program - lanes.seam - lanes.communication - copySeamOf(lanes.rowHeight);
  if (copies > 0 && below >= 0) {
    const place = Math.floor(below / (copies / copyTracks.length));
    return { rank, track: copyTracks[Math.min(place, copyTracks.length - 1)] };
  }
  const isMessage = lanes.messages && inside >= lanes.program + lanes.seam + lanes.calls;
  return { rank, track: isMessage ? MESSAGES : COLLECTIVES };
}

/**
 * Both ends of an edge: from the availability of its data, to their use. A collective
 * is left on each rank at that rank's own time.
 * @param {GraphModel} model
 * @param {GraphLanes} lanes
 * @param {TimeWindow} shown
 * @param {number} edge
 */
export function edgeEnds(model, lanes, shown, edge) {
  const { doc, kinds, rank, track, at } = model;
  const source = doc.edges.source[edge];
  const target = doc.edges.target[edge];
  const leaves = kinds[source] === "collective" ? rank[target] : rank[source];
  const from = trackBox(lanes, leaves, track[source]);
  const to = trackBox(lanes, rank[target], track[target]);
  return {
    fromRank: leaves,
    toRank: rank[target],
    x1: shown.x(doc.edges.ready[edge], lanes),
    y1: from.y + from.h / 2,
    x2: shown.x(at[target], lanes),
    y2: to.y + to.h / 2,
  };
}
