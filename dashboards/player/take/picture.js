// An exported picture: a figure at a moment, with the words of that moment above it and the run's name below.
// Drawn afresh at its own size, so that it is the same whatever window it is taken in.

import { palette } from "#player/colours.js";
import { make } from "#player/dom.js";
import { createView } from "#player/draw/index.js";
import { setPaper } from "#player/draw/layer.js";
import { fontsFor, measurer } from "#player/draw/text.js";
import { SWATCH, legendOf } from "#player/legend.js";
import { Markup } from "#player/take/markup.js";
import { Pen } from "#player/take/pen.js";
import { captionOf, layoutSheet } from "#player/take/sheet.js";
import { say } from "#player/words.js";

/** @import { Hosts, Model, Scene } from "#player/scene.d.ts" */
/** @import { Line, Sheet } from "#player/take/sheet.js" */

/**
 * The subject and size of a picture.
 * @typedef {object} Format
 * @property {keyof Hosts} figure
 * @property {number} width CSS pixels
 * @property {number} height
 * @property {number} scale pixels of a PNG or a film in a CSS pixel
 */

const NOTHING = { onSeekTime() {}, onSelectRank() {} };

export class Picture {
  /**
   * @param {Model} model
   * @param {Format} format
   * @param {boolean} isVector drawn as SVG, not in pixels
   */
  constructor(model, format, isVector) {
    this.model = model;
    this.format = format;
    const { width, height, scale, figure } = format;
    this.canvas = make("canvas", "");
    this.canvas.width = isVector ? 1 : Math.round(width * scale);
    this.canvas.height = isVector ? 1 : Math.round(height * scale);
    const ctx = this.canvas.getContext("2d");
    if (!ctx) {
      throw new Error(say("shared.no_canvas"));
    }
    this.measure = measurer(ctx);
    this.markup = new Markup(width, height);
    /** @type {Map<Element, Pen>} of the figure's layers */
    this.pens = new Map();
    this.pen = isVector ? new Pen(this.markup, this.measure) : null;
    this.ctx = this.pen?.context ?? ctx;
    /** @type {readonly string[]} other texts of the film that has this frame */
    this.beside = [];
    this.legend = figure === "stage" ? legendOf([model]) : () => [];
    this.host = make("div", "");
    this.host.style.cssText = "position:fixed;left:-20000px;top:0;overflow:hidden";
    this.host.inert = true;
    document.body.append(this.host);
    setPaper(this.host, {
      scale: isVector ? 1 : scale,
      pen: isVector ? (canvas) => this.penFor(canvas) : null,
    });
    this.view = createView(figure, this.host, NOTHING);
  }

  /** @param {HTMLCanvasElement} canvas */
  penFor(canvas) {
    const pen = new Pen(this.markup, this.measure);
    this.pens.set(canvas, pen);
    return pen.context;
  }

  /** @param {Scene} scene */
  draw(scene) {
    const { ctx, format, host, view } = this;
    const { width, height } = format;
    const colours = palette(scene.theme);
    const fonts = fontsFor(scene.present);
    const entries = this.legend(scene.theme);
    const caption = captionOf(scene, format.figure);
    const sheet = layoutSheet(caption, entries.map(({ short }) => short), { width, height, fonts, measure: this.measure, beside: this.beside });
    host.style.width = `${sheet.figure.w}px`;
    host.style.height = `${sheet.figure.h}px`;
    view.resize();
    view.render(scene);
    this.clear();
    ctx.fillStyle = colours.card;
    ctx.fillRect(0, 0, width, height);
    this.placeFigure(sheet);
    for (const line of sheet.lines) {
      this.write(line, colours);
    }
    for (const [i, { draw }] of entries.entries()) {
      const at = sheet.legend[i];
      if (at) {
        draw(ctx, at.x, at.y, SWATCH.width, SWATCH.height);
      }
    }
    return caption;
  }

  clear() {
    const { ctx, pen, format } = this;
    if (pen) {
      pen.parts = [];
    } else {
      ctx.setTransform(format.scale, 0, 0, format.scale, 0, 0);
    }
  }

  /** The contents of the figure's layers, in order. @param {Sheet} sheet */
  placeFigure({ figure }) {
    const { ctx, pen, host } = this;
    const origin = host.getBoundingClientRect();
    for (const part of host.querySelectorAll("canvas, div:empty")) {
      const { left, top, width, height } = part.getBoundingClientRect();
      const [x, y] = [figure.x + left - origin.left, figure.y + top - origin.top];
      const own = this.pens.get(part);
      if (width === 0) {
        continue; // hidden
      }
      if (own) {
        pen?.place(own, x, y, width, height);
      } else if (part instanceof HTMLCanvasElement) {
        ctx.drawImage(part, x, y, width, height);
      } else if (part instanceof HTMLElement && part.style.background && part.style.visibility !== "hidden") {
        ctx.fillStyle = part.style.background; // a cursor
        ctx.fillRect(x, y, width, height);
      }
    }
  }

  /** @param {Line} line @param {import("#player/colours.js").Palette} colours */
  write({ text, x, y, font, isMuted, isRight }, colours) {
    const { ctx } = this;
    ctx.font = font;
    ctx.fillStyle = isMuted ? colours.muted : colours.text;
    ctx.textAlign = isRight ? "right" : "left";
    ctx.fillText(text, x, y);
    ctx.textAlign = "left";
  }

  /** @param {Scene} scene @returns {string} an SVG */
  svg(scene) {
    const { title, what, run, where } = this.draw(scene);
    return this.markup.document(this.pen?.parts ?? [], title, [what, run, where].filter(Boolean).join(" · "));
  }

  /** @param {Scene} scene @returns {Promise<Blob>} */
  png(scene) {
    this.draw(scene);
    return new Promise((done, fail) => {
      this.canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error(say("take.picture.this_browser_makes_no_png")))), "image/png");
    });
  }

  remove() {
    this.view.destroy();
    this.host.remove();
  }
}
