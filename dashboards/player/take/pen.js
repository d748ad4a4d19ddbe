// A drawing context that writes SVG: it has the calls of the player's drawings, and no others. Unknown calls
// throw, so that no drawing silently loses a part.

import { attributes } from "#player/take/markup.js";

/** @import { Measure } from "#player/draw/text.js" */
/** @import { Markup } from "#player/take/markup.js" */
/** @typedef {[number, number, number, number, number, number]} Matrix a b c d e f, as canvases have them */

const IDENTITY = /** @type {const} */ ([1, 0, 0, 1, 0, 0]);
const ANCHORS = /** @type {Record<string, string>} */ ({ center: "middle", right: "end", end: "end" });
/** "600 15px system-ui, sans-serif" */
const FONT = /^(?:(\d+|bold|normal) )?([\d.]+)px (.+)$/;
/** An arc of this many radians is a whole circle; drawings write 7. */
const WHOLE = 2 * Math.PI;

/** The state kept by `save`, besides the matrix and the clip. */
const STATE = /** @type {const} */ ([
  "fillStyle", "strokeStyle", "lineWidth", "lineCap", "lineJoin", "globalAlpha", "font", "textAlign",
]);

/** A fill that repeats: `url(#id)`. @typedef {{pattern: string}} Pattern */

export class Pen {
  /**
   * @param {Markup} markup receives the drawing
   * @param {Measure} measure widths of texts
   */
  constructor(markup, measure) {
    this.markup = markup;
    this.measure = measure;
    /** @type {string | Pattern} */
    this.fillStyle = "#000000";
    /** @type {string | Pattern} */
    this.strokeStyle = "#000000";
    this.lineWidth = 1;
    this.lineCap = "butt";
    this.lineJoin = "miter";
    this.globalAlpha = 1;
    this.font = "10px sans-serif";
    this.textAlign = "left";
    /** @type {string[]} the drawing */
    this.parts = [];
    /** @type {string[]} the path */
    this.path = [];
    /** @type {number[]} */
    this.dashes = [];
    /** @type {Matrix} */
    this.matrix = [...IDENTITY];
    this.clipped = "";
    /** @type {object[]} */
    this.kept = [];
    Object.seal(this);
  }

  save() {
    const { matrix, clipped, dashes } = this;
    const state = Object.fromEntries(STATE.map((name) => [name, this[name]]));
    this.kept.push({ ...state, matrix, clipped, dashes });
  }

  restore() {
    Object.assign(this, this.kept.pop());
  }

  /** @param {Matrix} matrix */
  setTransform(...matrix) {
    this.matrix = matrix;
  }

  /** @param {Matrix} other */
  transform(...[a, b, c, d, e, f]) {
    const [m0, m1, m2, m3, m4, m5] = this.matrix;
    this.matrix = [
      m0 * a + m2 * b, m1 * a + m3 * b, m0 * c + m2 * d, m1 * c + m3 * d,
      m0 * e + m2 * f + m4, m1 * e + m3 * f + m5,
    ];
  }

  /** @param {number} x @param {number} y */
  translate(x, y) {
    this.transform(1, 0, 0, 1, x, y);
  }

  /** @param {number} x @param {number} y */
  scale(x, y) {
    this.transform(x, 0, 0, y, 0, 0);
  }

  /** @param {number} angle */
  rotate(angle) {
    const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
    this.transform(cos, sin, -sin, cos, 0, 0);
  }

  beginPath() {
    this.path = [];
  }

  closePath() {
    this.path.push("Z");
  }

  /** @param {number} x @param {number} y */
  moveTo(x, y) {
    this.path.push(`M${numbers(x, y)}`);
  }

  /** @param {number} x @param {number} y */
  lineTo(x, y) {
    this.path.push(`${this.path.length > 0 ? "L" : "M"}${numbers(x, y)}`);
  }

  /** @param {[number, number, number, number, number, number]} points */
  bezierCurveTo(...points) {
    this.path.push(`C${numbers(...points)}`);
  }

  /** @param {[number, number, number, number]} points */
  quadraticCurveTo(...points) {
    this.path.push(`Q${numbers(...points)}`);
  }

  /** @param {number} x @param {number} y @param {number} w @param {number} h */
  rect(x, y, w, h) {
    this.path.push(`M${numbers(x, y)}h${numbers(w)}v${numbers(h)}h${numbers(-w)}Z`);
  }

  /** @param {number} x @param {number} y @param {number} w @param {number} h @param {number} radius */
  roundRect(x, y, w, h, radius) {
    const r = Math.max(0, Math.min(radius, w / 2, h / 2));
    /** @param {number} right @param {number} down */
    const corner = (right, down) => `a${numbers(r, r)} 0 0 1 ${numbers(right * r, down * r)}`;
    this.path.push(
      `M${numbers(x + r, y)}h${numbers(w - 2 * r)}${corner(1, 1)}v${numbers(h - 2 * r)}${corner(-1, 1)}`,
      `h${numbers(2 * r - w)}${corner(-1, -1)}v${numbers(2 * r - h)}${corner(1, -1)}Z`,
    );
  }

  /** @param {number} x @param {number} y @param {number} r @param {number} from @param {number} to
   *  @param {boolean} [isBack] against the clock */
  arc(x, y, r, from, to, isBack = false) {
    const span = Math.min(WHOLE, isBack ? from - to : to - from);
    const end = from + (isBack ? -span : span);
    const sweep = isBack ? 0 : 1;
    /** @param {number} angle */
    const at = (angle) => numbers(x + r * Math.cos(angle), y + r * Math.sin(angle));
    this.lineTo(x + r * Math.cos(from), y + r * Math.sin(from));
    if (span >= WHOLE) {
      this.path.push(`A${numbers(r, r)} 0 1 ${sweep} ${at(from + Math.PI)}A${numbers(r, r)} 0 1 ${sweep} ${at(end)}`);
    } else {
      this.path.push(`A${numbers(r, r)} 0 ${Number(span > Math.PI)} ${sweep} ${at(end)}`);
    }
  }

  clip() {
    this.clipped = this.markup.clip(this.path.join(""), this.matrix, this.clipped);
  }

  fill() {
    this.add("path", { d: this.path.join(""), ...this.filled() });
  }

  stroke() {
    this.add("path", { d: this.path.join(""), ...this.stroked() });
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  fillRect(x, y, width, height) {
    this.add("rect", { x, y, width, height, ...this.filled() });
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  strokeRect(x, y, width, height) {
    this.add("rect", { x, y, width, height, ...this.stroked() });
  }

  /** From the corner, it is the whole picture; any other part is about to be drawn over.
   *  @param {number} x @param {number} y */
  clearRect(x, y) {
    if (x <= 0 && y <= 0) {
      this.parts = [];
    }
  }

  /** @param {string} text @param {number} x @param {number} y */
  fillText(text, x, y) {
    const [, weight, size, family] = FONT.exec(this.font) ?? [];
    const font = { "font-weight": weight, "font-size": size, "font-family": family };
    this.add("text", { x, y, ...this.filled(), ...font, "text-anchor": ANCHORS[this.textAlign] }, text);
  }

  /** @param {string} text */
  measureText(text) {
    return { width: this.measure(text, this.font) };
  }

  /** @param {number[]} dashes */
  setLineDash(dashes) {
    this.dashes = dashes;
  }

  /**
   * A tile that repeats.
   * @param {string} key the same for the same tile
   * @param {number} size
   * @param {(ctx: CanvasRenderingContext2D) => void} draw
   */
  tile(key, size, draw) {
    return { pattern: this.markup.tile(key, size, () => {
      const pen = new Pen(this.markup, this.measure);
      draw(pen.context);
      return pen.parts;
    }) };
  }

  /** The drawings' target. */
  get context() {
    return /** @type {CanvasRenderingContext2D} */ (/** @type {unknown} */ (this));
  }

  /** What another pen has drawn, at a place; what does not fit there is cut off, as on a canvas.
   *  @param {Pen} other @param {number} x @param {number} y @param {number} width @param {number} height */
  place({ parts }, x, y, width, height) {
    this.parts.push(`<svg${attributes({ x, y, width, height })}>`, ...parts, "</svg>");
  }

  /** @param {string} name @param {Record<string, string | number | undefined>} given @param {string} [text] */
  add(name, given, text) {
    const { globalAlpha, clipped } = this;
    const transform = this.matrix.some((one, i) => one !== IDENTITY[i]) ? `matrix(${numbers(...this.matrix)})` : undefined;
    const opacity = globalAlpha < 1 ? globalAlpha : undefined;
    const part = this.markup.element(name, { ...given, opacity, transform }, text);
    // A clip is in the picture's own coordinates, so it is outside of the moved group.
    this.parts.push(clipped ? `<g clip-path="url(#${clipped})">${part}</g>` : part);
  }

  filled() {
    return { fill: paint(this.fillStyle) };
  }

  stroked() {
    const { lineWidth, lineCap, lineJoin, dashes } = this;
    return {
      fill: "none",
      stroke: paint(this.strokeStyle),
      "stroke-width": lineWidth,
      "stroke-linecap": lineCap === "butt" ? undefined : lineCap,
      "stroke-linejoin": lineJoin === "miter" ? undefined : lineJoin,
      "stroke-dasharray": dashes.length > 0 ? dashes.join(" ") : undefined,
    };
  }
}

/** @param {string | Pattern} style */
function paint(style) {
  return typeof style === "string" ? style : `url(#${style.pattern})`;
}

/** Numbers with no more digits than are seen. @param {number[]} values */
export function numbers(...values) {
  return values.map((value) => String(Math.round(value * 100) / 100)).join(" ");
}
