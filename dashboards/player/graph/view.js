// The graph on its canvas: the displayed interval, and the pointer's actions.

import { palette } from "#player/colours.js";
import { drawAxis, drawNames } from "#player/draw/bars.js";
import { TimeWindow } from "#player/draw/lanes.js";
import { Layer, pointIn } from "#player/draw/layer.js";
import { fontsFor, measurer } from "#player/draw/text.js";
import { accents } from "#player/graph/accents.js";
import { drawLanes } from "#player/graph/bars.js";
import { MOST_EDGES, drawCriticalPath, drawEdges, drawSelected, edgesInSight } from "#player/graph/edges.js";
import { leavesOut } from "#player/graph/filter.js";
import { laneAt, layoutGraph } from "#player/graph/layout.js";
import { TRACKS } from "#player/graph/model.js";
import { nodeAt } from "#player/graph/walk.js";
import { say } from "#player/words.js";

/** @import { Theme } from "#player/colours.js" */
/** @import { Filter } from "#player/graph/filter.js" */
/** @import { GraphLanes } from "#player/graph/layout.js" */
/** @import { GraphModel } from "#player/graph/model.js" */

/** A pointer that moved less has clicked. */
const CLICK = 5;
/** So far beside a thin bar it is still meant. */
const NEAR = 4;

/**
 * The scene to draw.
 * @typedef {object} GraphScene
 * @property {Filter} filter
 * @property {Uint8Array} passed
 * @property {number} selected a node; -1
 * @property {Theme} theme
 * @property {boolean} present
 */

/**
 * @typedef {object} GraphCallbacks
 * @property {(node: number) => void} onSelect
 * @property {(node: number) => void} onPoint the node that is pointed at; -1
 * @property {() => void} onMove another part of the time is shown
 */

export class GraphView {
  /** @param {HTMLElement} host @param {GraphModel} model @param {GraphCallbacks} callbacks */
  constructor(host, model, callbacks) {
    this.host = host;
    this.model = model;
    this.callbacks = callbacks;
    this.layer = new Layer(host);
    this.measure = measurer(this.layer.ctx);
    this.shown = new TimeWindow(model.doc.duration_ns);
    /** @type {GraphLanes | null} */
    this.lanes = null;
    /** @type {GraphScene | null} */
    this.scene = null;
    /** How many edges are wanted here; more than MOST_EDGES are not drawn. */
    this.numEdges = 0;
    /** @type {Map<number, {x: number, y: number}>} */
    this.pointers = new Map();
    this.moved = 0;
    this.pointedAt = -1;
    this.listen();
  }

  listen() {
    const { host } = this;
    host.addEventListener("pointerdown", (event) => this.down(event));
    host.addEventListener("pointermove", (event) => this.move(event));
    host.addEventListener("pointerup", (event) => this.up(event));
    for (const gone of /** @type {const} */ (["pointercancel", "lostpointercapture"])) {
      host.addEventListener(gone, (event) => this.pointers.delete(event.pointerId));
    }
    host.addEventListener("pointerleave", () => this.point(-1));
    host.addEventListener("dblclick", () => this.fit());
    host.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.button === 0 && this.lanes) {
      this.pointers.set(event.pointerId, pointIn(event, this.host));
      this.moved = this.pointers.size > 1 ? Infinity : 0;
      this.host.setPointerCapture(event.pointerId);
    }
  }

  /** One pointer moves the time along, two also stretch it. @param {PointerEvent} event */
  move(event) {
    const point = pointIn(event, this.host);
    const before = this.pointers.get(event.pointerId);
    if (!before || !this.lanes) {
      this.point(this.nodeUnder(point.x, point.y));
      return;
    }
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, point);
    this.moved += Math.abs(point.x - before.x) + Math.abs(point.y - before.y);
    if (this.moved < CLICK) {
      return;
    }
    if (other) {
      const [was, is] = [Math.abs(before.x - other.x), Math.abs(point.x - other.x)];
      this.zoom(Math.max(10, was) / Math.max(10, is), (point.x + other.x) / 2);
    } else {
      this.pan((before.x - point.x) / this.lanes.width);
    }
  }

  /** @param {PointerEvent} event */
  up(event) {
    const wasDown = this.pointers.delete(event.pointerId);
    if (wasDown && this.moved < CLICK) {
      const { x, y } = pointIn(event, this.host);
      this.callbacks.onSelect(this.nodeUnder(x, y));
    }
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!this.lanes) {
      return;
    }
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const by = Math.max(-100, Math.min(100, event.deltaX || event.deltaY));
    if (sideways) {
      this.pan(by / this.lanes.width);
    } else {
      this.zoom(Math.exp(by / 250), pointIn(event, this.host).x);
    }
    event.preventDefault();
  }

  /** @param {number} part of the display */
  pan(part) {
    const by = part * this.shown.span;
    this.show(this.shown.from + by, this.shown.to + by);
  }

  /** @param {number} factor less than 1 shows less, larger @param {number} [x] what keeps its place */
  zoom(factor, x) {
    const { shown, lanes } = this;
    const middle = (shown.from + shown.to) / 2;
    shown.zoom(x === undefined || !lanes ? middle : shown.ns(x, lanes), factor);
    this.callbacks.onMove();
  }

  fit() {
    this.show(0, this.model.doc.duration_ns);
  }

  /** @param {number} from @param {number} to */
  show(from, to) {
    this.shown.show(from, to);
    this.callbacks.onMove();
  }

  /** Bring a node into sight, with something around it. @param {number} node */
  reveal(node) {
    const { start, end } = this.model;
    const { shown } = this;
    const isSeen = start[node] < shown.to && end[node] > shown.from && end[node] - start[node] < shown.span;
    const isWhole = start[node] >= shown.from && end[node] <= shown.to;
    if (!isWhole && !(isSeen && this.isMostlySeen(node))) {
      const span = Math.max(shown.span, (end[node] - start[node]) * 1.2);
      const middle = (start[node] + end[node]) / 2;
      this.show(middle - span / 2, middle + span / 2);
    }
  }

  /** @param {number} node */
  isMostlySeen(node) {
    const { start, end } = this.model;
    const seen = Math.min(end[node], this.shown.to) - Math.max(start[node], this.shown.from);
    return seen > (end[node] - start[node]) / 2;
  }

  /** @param {number} node */
  point(node) {
    if (node !== this.pointedAt) {
      this.pointedAt = node;
      this.host.style.cursor = node >= 0 ? "pointer" : "";
      this.callbacks.onPoint(node);
    }
  }

  /** The node at a point: of a collective's moving part the collective; -1 if none.
   *  @param {number} x @param {number} y */
  nodeUnder(x, y) {
    const { lanes, scene, model, shown } = this;
    if (!lanes || !scene || x < lanes.left || y > lanes.axisY) {
      return -1;
    }
    const { rank, track } = laneAt(lanes, y);
    const ns = shown.ns(x, lanes);
    const near = (NEAR / lanes.width) * shown.span;
    const node = nodeAt(model, scene.passed, rank * TRACKS + track, ns, near);
    if (node < 0 || model.kinds[node] !== "call" || ns < model.moving[node]) {
      return node;
    }
    const collective = model.collectives.get(model.doc.nodes.collective[node]) ?? -1;
    return collective >= 0 && scene.passed[collective] ? collective : node;
  }

  /** @param {GraphScene} scene */
  render(scene) {
    this.scene = scene;
    const { host, layer, model, shown, measure } = this;
    const [width, height] = [host.clientWidth, host.clientHeight];
    const colours = palette(scene.theme);
    const fonts = fontsFor(scene.present);
    const { ranks } = model.doc;
    const numRanks = ranks.length;
    const name = numRanks <= 8 ? say("shared.rank", { rank: ranks[numRanks - 1] }) : `▸ ${ranks[numRanks - 1]}`;
    const lanes = layoutGraph({
      width,
      height,
      numRanks,
      only: scene.filter.rank,
      nameWidth: measure(name, fonts.strong) + (numRanks <= 8 ? fonts.size * 0.68 + 7 : 0),
      fonts,
      messageNs: model.messageNs,
      span: shown.span,
      copyTracks: model.copyTracks,
    });
    this.lanes = lanes;
    const picture = {
      model,
      lanes,
      shown,
      passed: scene.passed,
      filtered: leavesOut(scene.filter),
      colours,
      accents: accents(scene.theme),
      fonts,
      measure,
    };
    layer.fit(width, height);
    const { ctx } = layer;
    const chosen = scene.selected < 0 ? -1 : model.rank[scene.selected];
    drawNames(ctx, model.doc, lanes, width, chosen, colours, fonts);
    drawAxis(ctx, lanes, shown, colours, fonts);
    ctx.save();
    ctx.beginPath();
    ctx.rect(lanes.left, 0, lanes.width, lanes.axisY);
    ctx.clip();
    drawLanes(layer, picture);
    const edges = edgesInSight(picture, scene.filter);
    this.numEdges = edges.length;
    drawEdges(ctx, picture, edges);
    drawCriticalPath(ctx, picture);
    if (scene.selected >= 0) {
      drawSelected(ctx, picture, scene.selected);
    }
    ctx.restore();
  }

  /** Whether there are more edges in sight than can be told apart. */
  get hidesEdges() {
    return this.numEdges > MOST_EDGES;
  }
}
