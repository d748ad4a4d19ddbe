// Canvases on top of each other in one host. Rarely and frequently changing parts are on different ones, so
// that a frame clears and draws little.

import { say } from "#player/words.js";

/** What a view of a host must do.
 *  @typedef {object} View
 *  @property {(scene: import("#player/scene.d.ts").Scene) => void} render
 *  @property {() => void} resize
 *  @property {() => void} destroy
 */

/**
 * The target of a host's layers, if it is not the screen: an exported picture.
 * @typedef {object} Paper
 * @property {number} scale device pixels in a CSS pixel
 * @property {((canvas: HTMLCanvasElement) => CanvasRenderingContext2D) | null} pen in place of the
 *   canvas's own context
 */

/** @type {WeakMap<HTMLElement, Paper>} */
const papers = new WeakMap();

/** What is put in a host from now on is drawn on paper. @param {HTMLElement} host @param {Paper} paper */
export function setPaper(host, paper) {
  papers.set(host, paper);
}

/** The paper of a host, or of what it is in. @param {HTMLElement} host @returns {Paper | undefined} */
function paperOf(host) {
  return papers.get(host) ?? (host.parentElement ? paperOf(host.parentElement) : undefined);
}

/** A canvas in CSS pixels, whatever the screen's. */
export class Layer {
  /** @param {HTMLElement} host it must be positioned */
  constructor(host) {
    this.paper = paperOf(host);
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.canvas.style.cssText = "position:absolute;left:0;top:0;pointer-events:none";
    host.append(this.canvas);
    const ctx = this.paper?.pen ? this.paper.pen(this.canvas) : this.canvas.getContext("2d");
    if (!ctx) {
      throw new Error(say("shared.no_canvas"));
    }
    this.ctx = ctx;
    this.width = 0;
    this.height = 0;
    this.scale = 1;
  }

  /**
   * Give it a place and a size, and clear it.
   * @param {number} width
   * @param {number} height
   * @param {number} [left]
   * @param {number} [top]
   */
  fit(width, height, left = 0, top = 0) {
    this.width = Math.max(1, Math.round(width));
    this.height = Math.max(1, Math.round(height));
    this.scale = this.paper?.scale ?? (globalThis.devicePixelRatio || 1);
    const { canvas } = this;
    const across = Math.round(this.width * this.scale);
    const down = Math.round(this.height * this.scale);
    if (canvas.width !== across || canvas.height !== down) {
      canvas.width = across;
      canvas.height = down;
      canvas.style.width = `${this.width}px`;
      canvas.style.height = `${this.height}px`;
    }
    canvas.style.left = `${left}px`;
    canvas.style.top = `${top}px`;
    this.clear();
  }

  clear() {
    const { ctx, scale } = this;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, this.canvas.width, this.canvas.height);
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
  }

  remove() {
    this.canvas.remove();
  }
}

/** A vertical line that moves in every frame: an element, moved without drawing anything. */
export class Cursor {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.element = document.createElement("div");
    this.element.setAttribute("aria-hidden", "true");
    this.element.style.cssText =
      "position:absolute;left:0;top:0;width:2px;pointer-events:none;will-change:transform";
    host.append(this.element);
    this.shown = true;
  }

  /** @param {number} top @param {number} height @param {string} colour @param {number} [width] */
  fit(top, height, colour, width = 2) {
    const { style } = this.element;
    style.top = `${top}px`;
    style.height = `${height}px`;
    style.width = `${width}px`;
    style.background = colour;
    this.width = width;
  }

  /** @param {number} x of its middle @param {boolean} [shown] */
  move(x, shown = true) {
    if (shown !== this.shown) {
      this.element.style.visibility = shown ? "visible" : "hidden";
      this.shown = shown;
    }
    this.element.style.transform = `translateX(${Math.round((x - (this.width ?? 2) / 2) * 4) / 4}px)`;
  }

  remove() {
    this.element.remove();
  }
}

/**
 * Where a pointer is in an element, in CSS pixels.
 * @param {MouseEvent} event
 * @param {HTMLElement} host
 */
export function pointIn(event, host) {
  const box = host.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

/**
 * Remembers the values behind a drawing; tells when one of them has changed.
 * @returns {(...values: unknown[]) => boolean}
 */
export function watch() {
  /** @type {unknown[]} */
  let before = [];
  return (...values) => {
    const changed = values.length !== before.length || values.some((one, i) => one !== before[i]);
    before = values;
    return changed;
  };
}
