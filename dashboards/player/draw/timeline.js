// The timeline: the activity of ranks over time. A click seeks, wheel and drag zoom, a double click shows all
// of it.

import { mix, palette } from "#player/colours.js";
import { drawAxis, drawBars, drawLaunches, drawNames, drawPath } from "#player/draw/bars.js";
import { CutLine } from "#player/draw/cut.js";
import { TimeWindow, layoutLanes } from "#player/draw/lanes.js";
import { barAt, boxOfBar } from "#player/naming/find.js";
import { nameBar } from "#player/naming/names.js";
import { Layer, pointIn, watch } from "#player/draw/layer.js";
import { localTime } from "#player/draw/moment.js";
import { fontsFor, measurer } from "#player/draw/text.js";
import { say } from "#player/words.js";

/** @import { Lanes } from "#player/draw/lanes.js" */
/** @import { View } from "#player/draw/layer.js" */
/** @import { Region } from "#player/regions.js" */
/** @import { Model, Scene, ViewCallbacks } from "#player/scene.d.ts" */
/** @import { Timeline } from "#player/types.d.ts" */

/** Lanes that copies need: for the bus, and one more for a disk. @param {Timeline} timeline */
export function copyLanesIn({ bars }) {
  let most = 1;
  for (let i = 1; i < bars.length; i += 7) {
    most = Math.max(most, bars[i]);
  }
  return most - 1;
}

/** A pointer that moved less has clicked. */
const CLICK = 5;

/** @implements {View} */
export class TimelineView {
  /** @param {HTMLElement} host @param {ViewCallbacks} callbacks */
  constructor(host, callbacks) {
    this.host = host;
    this.callbacks = callbacks;
    this.layer = new Layer(host);
    this.picked = new Layer(host);
    this.cut = new CutLine(host);
    this.measure = measurer(this.layer.ctx);
    this.changed = watch();
    this.shown = new TimeWindow(1);
    /** @type {Model | null} */
    this.model = null;
    /** @type {Lanes | null} */
    this.lanes = null;
    /** @type {Scene | null} */
    this.scene = null;
    /** @type {number | null} x where a drag began */
    this.dragFrom = null;
    this.dragTo = 0;
    this.width = 0;
    this.height = 0;
    this.listening = new AbortController();
    this.listen();
    this.resize();
  }

  listen() {
    const { host } = this;
    const { signal } = this.listening;
    host.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && this.lanes) {
        this.dragFrom = pointIn(event, host).x;
        this.dragTo = this.dragFrom;
        host.setPointerCapture(event.pointerId);
      }
    }, { signal });
    host.addEventListener("pointermove", (event) => {
      if (this.dragFrom !== null) {
        this.dragTo = pointIn(event, host).x;
        this.drawPicked();
      }
    }, { signal });
    host.addEventListener("pointerup", (event) => {
      const { x, y } = pointIn(event, host);
      this.drop(x, y);
    }, { signal });
    host.addEventListener("pointercancel", () => {
      this.dragFrom = null;
      this.drawPicked();
    }, { signal });
    host.addEventListener("dblclick", () => {
      this.shown.reset();
      this.again();
    }, { signal });
    host.addEventListener("wheel", (event) => this.wheel(event), { signal, passive: false });
  }

  /** A drag ended: it zooms; one that hardly moved seeks, or selects the rank by its name.
   *  @param {number} x @param {number} y */
  drop(x, y) {
    const from = this.dragFrom;
    this.dragFrom = null;
    if (from === null || !this.lanes) {
      return;
    }
    const [a, b] = [this.shown.ns(from, this.lanes), this.shown.ns(x, this.lanes)];
    const row = Math.floor(y / this.lanes.rowHeight);
    if (x < this.lanes.left && from < this.lanes.left) {
      if (row < this.lanes.count) {
        this.callbacks.onSelectRank(this.lanes.first + row);
      }
    } else if (Math.abs(x - from) < CLICK) {
      const nearest = Math.max(0, Math.min(this.lanes.count - 1, row));
      this.callbacks.onSeekTime(b, this.lanes.first + nearest);
    } else {
      this.shown.show(Math.min(a, b), Math.max(a, b));
      this.again();
    }
    this.drawPicked();
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!this.lanes) {
      return;
    }
    const whole = this.shown.span >= this.shown.duration;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = (event.deltaX / this.lanes.width) * this.shown.span;
      this.shown.show(this.shown.from + by, this.shown.to + by);
    } else if (whole && event.deltaY > 0) {
      return;
    } else {
      const ns = this.shown.ns(pointIn(event, this.host).x, this.lanes);
      this.shown.zoom(ns, Math.exp(Math.max(-100, Math.min(100, event.deltaY)) / 250));
    }
    event.preventDefault();
    this.again();
  }

  /** Draw the displayed interval. */
  again() {
    if (this.scene) {
      this.render(this.scene);
    }
  }

  /** @param {Scene} scene */
  render(scene) {
    const { model, document: doc, theme, present, rank } = scene;
    const { position, tween } = scene.now;
    this.scene = scene;
    if (model !== this.model) {
      this.model = model;
      this.shown = new TimeWindow(doc.timeline.duration_ns);
    }
    const now = localTime(model, rank, position, tween);
    if (tween !== null) {
      this.shown.follow(now);
    }
    const { width, height, shown } = this;
    if (this.changed(model, theme, present, rank, width, height, shown.from, shown.to, devicePixelRatio)) {
      this.draw(scene);
    }
    this.cut.render(scene, /** @type {Lanes} */ (this.lanes), shown);
  }

  /** @param {Scene} scene */
  draw({ model, document: doc, theme, present, rank }) {
    const { layer, shown, width, height } = this;
    const colours = palette(theme);
    const fonts = fontsFor(present);
    const longest = `${doc.ranks[doc.ranks.length - 1]}`;
    const few = model.numRanks <= 8;
    const labelWidth = few
      ? this.measure(say("shared.rank", { rank: longest }), fonts.strong) + fonts.size * 0.68 + 7
      : this.measure(`▸ ${longest}`, fonts.strong);
    const numRanks = model.numRanks;
    const copyLanes = copyLanesIn(doc.timeline);
    const hasLaunches = doc.timeline.launches.length > 0;
    const lanes = layoutLanes({
      width, height, numRanks, selected: rank, fonts, labelWidth, copyLanes, hasLaunches,
    });
    this.lanes = lanes;
    layer.fit(width, height);
    this.picked.fit(width, lanes.axisY);
    drawNames(layer.ctx, doc, lanes, width, rank, colours, fonts);
    drawBars(layer, doc.timeline, lanes, shown, colours, fonts);
    drawLaunches(layer, doc.timeline, lanes, shown, colours);
    drawPath(layer, doc.timeline, lanes, shown, colours);
    drawAxis(layer.ctx, lanes, shown, colours, fonts);
  }

  /** The interval of a drag's zoom. */
  drawPicked() {
    const { picked, lanes, scene, dragFrom, dragTo } = this;
    picked.clear();
    if (!lanes || !scene || dragFrom === null || Math.abs(dragTo - dragFrom) < CLICK) {
      return;
    }
    const colours = palette(scene.theme);
    const x = Math.max(lanes.left, Math.min(dragFrom, dragTo));
    const right = Math.min(lanes.left + lanes.width, Math.max(dragFrom, dragTo));
    picked.ctx.globalAlpha = 0.25;
    picked.ctx.fillStyle = mix(colours.select, colours.card, 0.2);
    picked.ctx.fillRect(x, 0, right - x, lanes.axisY);
    picked.ctx.globalAlpha = 1;
    picked.ctx.fillStyle = colours.select;
    picked.ctx.fillRect(x, 0, 1, lanes.axisY);
    picked.ctx.fillRect(right, 0, 1, lanes.axisY);
  }

  /** @param {number} x @param {number} y @returns {Region | null} */
  find(x, y) {
    const { lanes, model, shown } = this;
    const found = lanes && model && barAt(model.doc.timeline.bars, lanes, shown, x, y);
    return found ? { box: found.box, named: nameBar(/** @type {Model} */ (model), found.at) } : null;
  }

  /** The bars of the selected rank that are shown. @returns {[number, number][]} */
  spots() {
    const { lanes, model, shown, scene } = this;
    /** @type {[number, number][]} */
    const spots = [];
    const bars = model?.doc.timeline.bars ?? [];
    for (let at = 0; lanes && at < bars.length; at += 7) {
      const { x, y, w, h } = boxOfBar(bars, at, lanes, shown);
      if (bars[at] === scene?.rank && x + w / 2 >= lanes.left && x < lanes.left + lanes.width) {
        spots.push([x + w / 2, y + h / 2]);
      }
    }
    return spots.sort((a, b) => a[0] - b[0]);
  }

  resize() {
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
  }

  destroy() {
    this.listening.abort();
    this.layer.remove();
    this.picked.remove();
    this.cut.remove();
  }
}
