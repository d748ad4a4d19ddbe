// The scrubber: phases by steps, the playhead, breakpoints. Its picture only: the page's range
// input gives it keys and a name.

import { inkOn, palette } from "#player/colours.js";
import { Cursor, Layer, pointIn, watch } from "#player/draw/layer.js";
import { fontsFor, measurer } from "#player/draw/text.js";
import { named } from "#player/words.js";

/** @import { Track, TrackScene } from "#player/scene.d.ts" */

const DOT = 4.5;

/**
 * The step at a point of the scrubber.
 * @param {number} x
 * @param {number} width
 * @param {number} numSteps
 */
export function stepAtX(x, width, numSteps) {
  const step = Math.floor((x / Math.max(1, width)) * numSteps);
  return Math.max(0, Math.min(numSteps - 1, step));
}

/**
 * Where the playhead is: at rest in the middle of its step.
 * @param {number} position
 * @param {number | null} tween
 * @param {number} width
 * @param {number} numSteps
 */
export function headX(position, tween, width, numSteps) {
  return ((position + (tween ?? 0.5)) / numSteps) * width;
}

export class Scrubber {
  /** @param {HTMLElement} host @param {{onSeekStep: (step: number) => void}} callbacks */
  constructor(host, callbacks) {
    this.host = host;
    this.layer = new Layer(host);
    this.cursor = new Cursor(host);
    this.measure = measurer(this.layer.ctx);
    this.changed = watch();
    this.width = 0;
    this.height = 0;
    /** @type {Track | null} */
    this.model = null;
    this.dragging = false;
    this.lastStep = -1;
    this.listening = new AbortController();
    const { signal } = this.listening;
    /** @param {PointerEvent} event */
    const seek = (event) => {
      if (this.model) {
        const step = stepAtX(pointIn(event, host).x, this.width, this.model.numSteps);
        if (step !== this.lastStep) {
          this.lastStep = step;
          callbacks.onSeekStep(step);
        }
      }
    };
    host.addEventListener("pointerdown", (event) => {
      if (event.button === 0 && event.target === host) {
        this.dragging = true;
        this.lastStep = -1;
        host.setPointerCapture(event.pointerId);
        seek(event);
      }
    }, { signal });
    host.addEventListener("pointermove", (event) => {
      if (this.dragging) {
        seek(event);
      }
    }, { signal });
    for (const end of /** @type {const} */ (["pointerup", "pointercancel"])) {
      host.addEventListener(end, () => {
        this.dragging = false;
      }, { signal });
    }
    this.resize();
  }

  /** @param {TrackScene} scene */
  render(scene) {
    const { model, theme, present, breakpoints, position, tween } = scene;
    this.model = model;
    const { width, height } = this;
    if (this.changed(model, theme, present, breakpoints, width, height, devicePixelRatio)) {
      this.layer.fit(width, height);
      this.draw(scene);
    }
    this.cursor.move(headX(position, tween, width, model.numSteps));
  }

  /** @param {TrackScene} scene */
  draw({ model, theme, present, breakpoints }) {
    const { ctx } = this.layer;
    const { width, height } = this;
    const colours = palette(theme);
    const fonts = fontsFor(present);
    const barHeight = Math.min(fonts.size + 9, height - 2 * DOT - 4);
    const top = Math.round(height - barHeight - 3);
    ctx.font = fonts.strong;
    ctx.textAlign = "center";
    for (const [i, { phase, first, last }] of model.phases.entries()) {
      const x = Math.round((first / model.numSteps) * width) + (i > 0 ? 1 : 0);
      const right = Math.round(((last + 1) / model.numSteps) * width) - (i < model.phases.length - 1 ? 1 : 0);
      const w = Math.max(1, right - x);
      ctx.fillStyle = colours.phases[phase];
      ctx.beginPath();
      ctx.roundRect(x, top, w, barHeight, Math.min(4, w / 2));
      ctx.fill();
      if (barHeight >= fonts.size + 2 && this.measure(named(phase), fonts.strong) + 12 <= w) {
        ctx.fillStyle = inkOn(colours.phases[phase]);
        ctx.fillText(named(phase), x + w / 2, top + barHeight / 2 + fonts.size * 0.35);
      }
    }
    ctx.fillStyle = colours.break;
    ctx.strokeStyle = colours.card;
    ctx.lineWidth = 1.5;
    let before = -Infinity;
    for (const step of breakpoints) {
      const x = headX(step, null, width, model.numSteps);
      if (x - before < 3) {
        continue;
      }
      before = x;
      ctx.beginPath();
      ctx.arc(Math.max(DOT, Math.min(width - DOT, x)), Math.max(DOT + 1, top - DOT), DOT, 0, 7);
      ctx.fill();
      ctx.stroke();
    }
    this.cursor.fit(Math.max(0, top - 6), Math.min(height, barHeight + 9 + 3), colours.cursor, 3);
  }

  resize() {
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
  }

  destroy() {
    this.listening.abort();
    this.layer.remove();
    this.cursor.remove();
  }
}
