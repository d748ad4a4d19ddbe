// Draws edges, the critical path and the selection.

import { mix } from "#player/colours.js";
import { NUMBERS_PER_PIECE } from "#player/graph/document.js";
import { edgeEnds, isShown, seamY, trackBox } from "#player/graph/layout.js";
import { MESSAGES, edgesOf } from "#player/graph/model.js";

/** @import { Picture } from "#player/graph/bars.js" */
/** @import { Filter } from "#player/graph/filter.js" */
/** @import { EdgeKind } from "#player/graph/types.d.ts" */

/** With more in sight they would hide each other: then none is drawn. */
export const MOST_EDGES = 1500;
/** Maximum number beside the selected node. */
const MOST_NEIGHBOURS = 60;
const ARROW = 6;

/** How a sort of edge is dashed; none by colour alone. @type {Readonly<Record<EdgeKind, number[]>>} */
export const DASHES = {
  "program order": [1, 3],
  match: [],
  message: [6, 3],
  "tensor lifetime": [8, 3, 2, 3],
};

/**
 * The edges that are in sight: wanted, between nodes that pass, and not all of it to one side.
 * @param {Picture} picture
 * @param {Filter} filter
 * @returns {number[]}
 */
export function edgesInSight({ model, lanes, shown, passed }, filter) {
  const { doc, at, track, rank, numEdges } = model;
  const { source, target, ready, reason } = doc.edges;
  const wanted = doc.reasons.map(({ kind }) => filter.edges.includes(kind));
  /** @type {number[]} */
  const found = [];
  for (let edge = 0; edge < numEdges; edge += 1) {
    const from = source[edge];
    const to = target[edge];
    if (
      wanted[reason[edge]] &&
      ready[edge] <= shown.to &&
      at[to] >= shown.from &&
      passed[from] &&
      passed[to] &&
      isShown(lanes, rank[from]) &&
      isShown(lanes, rank[to]) &&
      (lanes.messages || (track[from] !== MESSAGES && track[to] !== MESSAGES))
    ) {
      found.push(edge);
    }
  }
  return found;
}

/** @param {CanvasRenderingContext2D} ctx @param {Picture} picture @param {readonly number[]} edges */
export function drawEdges(ctx, picture, edges) {
  if (edges.length > MOST_EDGES) {
    return;
  }
  const { model, colours } = picture;
  ctx.lineWidth = 1;
  ctx.strokeStyle = mix(colours.card, colours.select, edges.length > 60 ? 0.4 : 0.75);
  for (const kind of new Set(edges.map((edge) => model.edgeKinds[edge]))) {
    ctx.setLineDash(DASHES[kind]);
    ctx.beginPath();
    for (const edge of edges) {
      if (model.edgeKinds[edge] === kind) {
        trace(ctx, picture, edge);
      }
    }
    ctx.stroke();
  }
  ctx.setLineDash([]);
}

/**
 * The selection: a frame around it, its edges with arrows, the binding one thicker.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Picture} picture
 * @param {number} node
 */
export function drawSelected(ctx, picture, node) {
  const { model, lanes, accents, shown } = picture;
  const { into, outOf, track, doc, kinds } = model;
  const bound = doc.edges.binding[node];
  ctx.strokeStyle = accents.selected;
  ctx.fillStyle = accents.selected;
  const around = [...edgesOf(into, node), ...edgesOf(outOf, node)].filter((edge) => {
    const ends = [doc.edges.source[edge], doc.edges.target[edge]];
    return (
      (lanes.messages || ends.every((one) => track[one] !== MESSAGES)) &&
      ends.every((one) => isShown(lanes, model.rank[one]))
    );
  });
  for (const edge of around.slice(0, MOST_NEIGHBOURS)) {
    ctx.lineWidth = edge === bound ? 3 : 1.5;
    ctx.setLineDash(DASHES[model.edgeKinds[edge]]);
    ctx.beginPath();
    const tip = trace(ctx, picture, edge);
    ctx.stroke();
    ctx.setLineDash([]);
    arrow(ctx, tip.x, tip.y, tip.angle);
  }
  const framed = kinds[node] === "collective" ? callsOf(picture, node) : [node];
  ctx.lineWidth = 3;
  for (const one of framed.filter((own) => isShown(lanes, model.rank[own]))) {
    const isPart = kinds[node] === "collective" && one !== node;
    const { y, h } = trackBox(lanes, model.rank[one], track[one]);
    const x = shown.x(isPart ? model.moving[one] : model.start[one], lanes);
    const w = Math.max(3, shown.x(model.end[one], lanes) - x);
    ctx.beginPath();
    ctx.roundRect(x - 2, y - 2, w + 4, h + 4, 4);
    ctx.stroke();
  }
}

/** The parts of a collective on all ranks; itself where no call is known.
 *  @param {Picture} picture @param {number} node */
function callsOf({ model }, node) {
  const calls = model.callsOf.get(model.doc.nodes.collective[node]) ?? [];
  return calls.length > 0 ? calls : [node];
}

/**
 * The line of an edge. @param {CanvasRenderingContext2D} ctx @param {Picture} picture
 * @param {number} edge @returns {{x: number, y: number, angle: number}} its end, and its angle there
 */
function trace(ctx, { model, lanes, shown }, edge) {
  const { x1, y1, x2, y2 } = edgeEnds(model, lanes, shown, edge);
  ctx.moveTo(x1, y1);
  if (Math.abs(y2 - y1) < 1) {
    const high = Math.min(18, 4 + (x2 - x1) * 0.12);
    ctx.bezierCurveTo(x1 + (x2 - x1) * 0.2, y1 - high, x2 - (x2 - x1) * 0.2, y2 - high, x2, y2);
    return { x: x2, y: y2, angle: Math.atan2(high, Math.max(1, (x2 - x1) * 0.2)) };
  }
  ctx.lineTo(x2, y2);
  return { x: x2, y: y2, angle: Math.atan2(y2 - y1, x2 - x1) };
}

/** @param {CanvasRenderingContext2D} ctx @param {number} x @param {number} y @param {number} angle */
function arrow(ctx, x, y, angle) {
  ctx.save();
  ctx.translate(x, y);
  ctx.rotate(angle);
  ctx.beginPath();
  ctx.moveTo(0, 0);
  ctx.lineTo(-ARROW, -ARROW * 0.6);
  ctx.lineTo(-ARROW, ARROW * 0.6);
  ctx.fill();
  ctx.restore();
}

/**
 * The critical path: a line between a rank's computation and its communication, from rank to rank; concurrent
 * events of other ranks have slack.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Picture} picture
 */
export function drawCriticalPath(ctx, { model, lanes, shown, colours }) {
  const { path, nodes } = model.doc;
  if (path === null) {
    return;
  }
  const { pieces } = path;
  ctx.beginPath();
  let last = -1;
  let num = 0;
  for (let i = 0; i < pieces.length && pieces[i + 2] <= shown.to; i += NUMBERS_PER_PIECE) {
    const rank = nodes.rank[pieces[i]];
    if (pieces[i + 3] < shown.from || !isShown(lanes, rank)) {
      last = -1;
      continue;
    }
    const y = seamY(lanes, rank);
    const x = shown.x(pieces[i + 2], lanes);
    if (last < 0) {
      ctx.moveTo(x, y);
    } else if (last !== rank) {
      ctx.lineTo(x, y);
    }
    ctx.lineTo(shown.x(pieces[i + 3], lanes), y);
    num += 1;
    last = rank;
  }
  const dense = num > lanes.width / 6;
  const thick = dense ? 1.5 : lanes.rowHeight >= 40 ? 4 : lanes.rowHeight >= 16 ? 2.5 : 2;
  ctx.lineJoin = "round";
  if (!dense) {
    ctx.strokeStyle = colours.card;
    ctx.lineWidth = thick + 3;
    ctx.stroke();
  }
  ctx.strokeStyle = colours.strong;
  ctx.lineWidth = thick;
  ctx.stroke();
}
