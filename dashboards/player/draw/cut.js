// The timeline's cursor: a cut through all ranks, each at its own time, so that the line goes in
// zigzag. It has a canvas that is only as wide as the line, and moves.

import { palette } from "#player/colours.js";
import { laneY } from "#player/draw/lanes.js";
import { Layer } from "#player/draw/layer.js";
import { localTime } from "#player/draw/moment.js";

/** @import { Lanes, TimeWindow } from "#player/draw/lanes.js" */
/** @import { Scene } from "#player/scene.d.ts" */

const MARGIN = 7;
/** The canvas grows in steps, so that it is seldom made anew. */
const GROWTH = 128;

/**
 * Horizontal places of the cut, rank by rank of those that are shown; written into `out`.
 * @param {Scene} scene
 * @param {Lanes} lanes
 * @param {TimeWindow} shown
 * @param {Float64Array} out
 */
export function cutAt({ model, position, tween }, lanes, shown, out) {
  const right = lanes.left + lanes.width;
  for (let i = 0; i < lanes.count; i += 1) {
    const x = shown.x(localTime(model, lanes.first + i, position, tween), lanes);
    out[i] = Math.max(lanes.left - 1, Math.min(right + 1, x));
  }
  return out;
}

export class CutLine {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.layer = new Layer(host);
    this.layer.canvas.style.willChange = "transform";
    this.places = new Float64Array(64);
  }

  /**
   * @param {Scene} scene
   * @param {Lanes} lanes
   * @param {TimeWindow} shown
   */
  render(scene, lanes, shown) {
    const { layer } = this;
    const { count, rowHeight, axisY } = lanes;
    if (this.places.length < count) {
      this.places = new Float64Array(count);
    }
    const places = cutAt(scene, lanes, shown, this.places);
    let left = places[0];
    let right = places[0];
    for (let i = 1; i < count; i += 1) {
      left = Math.min(left, places[i]);
      right = Math.max(right, places[i]);
    }
    const width = Math.ceil((right - left + 2 * MARGIN) / GROWTH) * GROWTH;
    const height = axisY + 4;
    if (layer.width !== width || layer.height !== height || layer.scale !== devicePixelRatio) {
      layer.fit(width, height);
    } else {
      layer.clear();
    }
    const origin = Math.floor(left - MARGIN);
    layer.canvas.style.transform = `translateX(${origin}px)`;
    const { ctx } = layer;
    const colours = palette(scene.theme);
    ctx.beginPath();
    for (let i = 0; i < count; i += 1) {
      const x = places[i] - origin;
      const top = i === 0 ? 0 : laneY(lanes, lanes.first + i, 0) - (rowHeight >= 24 ? 3 : 0);
      const bottom = i === count - 1 ? height : laneY(lanes, lanes.first + i + 1, 0) - (rowHeight >= 24 ? 6 : 0);
      ctx.lineTo(x, top);
      ctx.lineTo(x, bottom);
    }
    ctx.lineJoin = "round";
    ctx.strokeStyle = colours.card;
    ctx.lineWidth = 5;
    ctx.stroke();
    ctx.strokeStyle = colours.cursor;
    ctx.lineWidth = 3.5;
    ctx.stroke();
    // A head: this line is the cursor, the thin one the critical path.
    const head = places[0] - origin;
    ctx.fillStyle = colours.cursor;
    ctx.beginPath();
    ctx.moveTo(head - MARGIN, 0);
    ctx.lineTo(head + MARGIN, 0);
    ctx.lineTo(head, 8);
    ctx.fill();
  }

  remove() {
    this.layer.remove();
  }
}
