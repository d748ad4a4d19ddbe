// Text on canvases: sizes for a reader at the desk and one in the last row, and text that fits.

const FAMILY = 'system-ui, -apple-system, "Segoe UI", Inter, Roboto, "DejaVu Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';
const MONO = 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace';

/**
 * @typedef {object} Fonts
 * @property {number} size of text
 * @property {number} smallSize of a unit's name on a narrow card
 * @property {string} text
 * @property {string} strong
 * @property {string} small
 * @property {string} smallStrong
 * @property {string} mono
 * @property {string} monoStrong
 */

/** @param {number} size @param {number} smallSize @returns {Fonts} */
const fonts = (size, smallSize) => ({
  size,
  smallSize,
  text: `${size}px ${FAMILY}`,
  strong: `600 ${size}px ${FAMILY}`,
  small: `${smallSize}px ${FAMILY}`,
  smallStrong: `700 ${smallSize}px ${FAMILY}`,
  mono: `${size}px ${MONO}`,
  monoStrong: `700 ${size}px ${MONO}`,
});

const DESK = fonts(15, 13);
/** By the width of the window: the audience of a larger projection sits further away. @type {Map<number,
 *  Fonts>} */
const lastRow = new Map();

/** @param {boolean} present @returns {Fonts} */
export function fontsFor(present) {
  if (!present) {
    return DESK;
  }
  const size = Math.max(20, Math.min(32, Math.round(0.01 * (globalThis.innerWidth ?? 1280) + 7)));
  const known = lastRow.get(size) ?? fonts(size, Math.round(0.8 * size));
  lastRow.set(size, known);
  return known;
}

/** @typedef {(text: string, font: string) => number} Measure */

/** Width of a text; remembered, as most are drawn again and again. @param {CanvasRenderingContext2D} ctx
 *  @returns {Measure} */
export function measurer(ctx) {
  return (text, font) => {
    const key = `${font}|${text}`;
    let width = widths.get(key);
    if (width === undefined) {
      if (widths.size > 4000) {
        widths.clear();
      }
      const before = ctx.font;
      ctx.font = font;
      width = ctx.measureText(text).width;
      ctx.font = before;
      widths.set(key, width);
    }
    return width;
  };
}

/** @type {Map<string, number>} */
const widths = new Map();

/**
 * A text cut so that it fits; "" where not even two letters do.
 * @param {string} text
 * @param {number} room
 * @param {(text: string) => number} width
 */
export function shorten(text, room, width) {
  if (width(text) <= room) {
    return text;
  }
  for (let length = text.length - 1; length >= 2; length -= 1) {
    const short = `${text.slice(0, length).trimEnd()}…`;
    if (width(short) <= room) {
      return short;
    }
  }
  return "";
}

/**
 * A unit's name, shorter: the last part of a long path with its number.
 * @param {string} name
 */
export function unitLabel(name) {
  const known = SHORT.get(name);
  if (known) {
    return known;
  }
  const parts = name.split(".");
  const number = parts.findLastIndex((part) => /^\d+$/.test(part));
  if (number > 0) {
    return parts.slice(number - 1, number + 1).join(".");
  }
  return parts[parts.length - 1];
}

const SHORT = new Map([
  ["embedding", "emb"],
  ["embeddings", "emb"],
  ["tok_embeddings", "emb"],
]);

/**
 * The number in the label of a unit, or of a stage, where all labels have no room: "2" of "blocks.2".
 * @param {string} label
 */
export function numberOf(label) {
  return /(?:\.|^stage )(\d+)$/.exec(label)?.[1] ?? label;
}

/**
 * Which of some labels on a line can be shown without touching each other: the wanted one first,
 * then from left to right.
 * @param {readonly {centre: number, width: number}[]} labels
 * @param {number} wanted -1 if none
 * @param {number} gap
 * @returns {boolean[]}
 */
export function pickLabels(labels, wanted, gap) {
  const shown = labels.map(() => false);
  let right = -Infinity;
  const kept = labels[wanted];
  for (const [i, { centre, width }] of labels.entries()) {
    if (i === wanted) {
      shown[i] = true;
      right = Math.max(right, centre + width / 2);
      continue;
    }
    const left = centre - width / 2;
    const meetsKept =
      kept && Math.abs(kept.centre - centre) < (kept.width + width) / 2 + gap;
    if (left >= right + gap && !meetsKept) {
      shown[i] = true;
      right = centre + width / 2;
    }
  }
  return shown;
}

/** Steps of 1, 2, 5, 10 ... so that about `count` lie in a range. @param {number} range @param {number} count */
export function niceStep(range, count) {
  const rough = range / Math.max(1, count);
  if (!(rough > 0)) {
    return 1;
  }
  const power = 10 ** Math.floor(Math.log10(rough));
  const scaled = rough / power;
  return power * (scaled <= 1 ? 1 : scaled <= 2 ? 2 : scaled <= 5 ? 5 : 10);
}

/**
 * A text on this number of lines; the last one is truncated.
 * @param {string} text
 * @param {number} room
 * @param {number} most lines
 * @param {(text: string) => number} width
 * @returns {string[]}
 */
export function wrap(text, room, most, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = lines[lines.length - 1] ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length === most || width(longer) <= room || longer === word) {
      lines[lines.length - 1] = longer;
    } else {
      lines.push(word);
    }
  }
  return lines.map((line) => shorten(line.replace(/ ·$/, ""), room, width));
}
