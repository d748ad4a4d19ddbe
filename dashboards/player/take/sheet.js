// The words of a picture and their positions. Pure.

import { formatTime, joinDots } from "#player/format.js";
import { trafficText } from "#player/explain.js";
import { SWATCH } from "#player/legend.js";
import { wordsOf } from "#player/moment.js";
import { summary } from "#player/shell.js";
import { shorten } from "#player/draw/text.js";
import { NO_STOP, nameOfStop } from "#player/tour.js";
import { say } from "#player/words.js";

/** @import { Fonts, Measure } from "#player/draw/text.js" */
/** @import { Hosts, Scene } from "#player/scene.d.ts" */

/**
 * The texts of a picture.
 * @typedef {object} Caption
 * @property {string} title of the moment
 * @property {string} what happens
 * @property {string} figure the drawing, if it is not the stage
 * @property {string} run
 * @property {string} where in it
 */

/**
 * A line of text.
 * @typedef {object} Line
 * @property {string} text
 * @property {number} x
 * @property {number} y baseline
 * @property {string} font
 * @property {boolean} isMuted
 * @property {boolean} isRight it ends at x
 */

/**
 * @typedef {object} Sheet
 * @property {Line[]} lines
 * @property {{x: number, y: number, w: number, h: number}} figure
 * @property {({x: number, y: number} | null)[]} legend upper left corner of each swatch; null: no room
 */

/** How many lines a sentence may take. */
const MOST_LINES = 4;
const GAP = 16;

/** @param {Scene} scene @param {keyof Hosts} figure @returns {Caption} */
export function captionOf(scene, figure) {
  const { model, document: doc, position, hops, tour, rank, sent } = scene;
  const { title, what } = wordsOf(scene);
  const stop = tour === NO_STOP ? "" : nameOfStop(model, tour);
  const beat = say("shared.beat_of", { beat: model.beatOf[position] + 1, beats: doc.beats.length });
  const step = hops ? say("shared.step_of", { step: position + 1, steps: model.numSteps }) : "";
  const figures = {
    stage: "",
    timeline: say(doc.run.is_predicted ? "take.sheet.timeline_predicted" : "take.sheet.timeline"),
    traffic: say("take.sheet.traffic_sent_rank", { rank: doc.ranks[rank], model: trafficText(model, sent[rank], rank) }),
    memory: say("take.sheet.memory_of_rank", { rank: doc.ranks[rank] }),
  };
  return {
    title,
    what,
    figure: figures[figure],
    run: joinDots([doc.name, summary(doc), say("shared.iteration", { iteration: doc.run.iteration })]),
    where: joinDots([stop, beat, step, formatTime(doc.steps[position].time_ns, doc.run.is_predicted)]),
  };
}

/**
 * @param {Caption} caption
 * @param {readonly string[]} labels of the legend
 * @param {{width: number, height: number, fonts: Fonts, measure: Measure, beside?: readonly string[]}} given
 *   `beside`: the texts of a film's other pictures, with their figures in the same place
 * @returns {Sheet}
 */
export function layoutSheet({ title, what, figure, run, where }, labels, { width, height, fonts, measure, beside = [] }) {
  const { size } = fonts;
  const margin = Math.round(size * 1.4);
  const right = width - margin;
  const room = width - 2 * margin;
  const line = Math.round(size * 1.35);
  const large = fonts.strong.replace(`${size}px`, `${Math.round(size * 1.5)}px`);
  /** @type {Line[]} */
  const lines = [];
  /** @param {string} text @param {number} x @param {number} y @param {string} font @param {{isMuted?: boolean, isRight?: boolean}} [how] */
  const write = (text, x, y, font, { isMuted = false, isRight = false } = {}) => {
    lines.push({ text, x, y, font, isMuted, isRight });
  };
  /** @param {string} text @param {number} most @param {string} font */
  const fit = (text, most, font) => shorten(text, most, (part) => measure(part, font));

  let y = margin + Math.round(size * 1.15);
  write(fit(title, room, large), margin, y, large);
  y += Math.round(size * 0.4);
  /** @param {string} text */
  const sentence = (text) => wrap(text, room, (part) => measure(part, fonts.text));
  for (const [i, part] of sentence(what).entries()) {
    write(part, margin, y + (i + 1) * line, fonts.text);
  }
  y += line * Math.max(...[what, ...beside].map((text) => sentence(text).length));
  if (figure) {
    y += line + 6;
    write(fit(figure, room, fonts.strong), margin, y, fonts.strong);
  }
  const foot = height - margin + Math.round(size * 0.2);
  const whereWidth = measure(where, fonts.small);
  write(where, right, foot, fonts.small, { isMuted: true, isRight: true });
  write(fit(run, room - whereWidth - GAP, fonts.small), margin, foot, fonts.small, { isMuted: true });

  const legendY = foot - line - 6;
  let x = margin;
  const legend = labels.map((label) => {
    const textX = x + SWATCH.width + 6;
    const end = textX + measure(label, fonts.text);
    if (end > right) {
      return null;
    }
    const at = { x, y: legendY - SWATCH.height + 2 };
    write(label, textX, legendY, fonts.text, { isMuted: true });
    x = end + GAP;
    return at;
  });
  const top = y + Math.round(size * 0.9);
  const bottom = (labels.length > 0 ? legendY - line : foot - line) - 4;
  return { lines, legend, figure: { x: margin, y: top, w: room, h: Math.max(1, bottom - top) } };
}

/** A text in lines; what does not fit into the last one is cut. @param {string} text @param {number} room
 *  @param {(text: string) => number} width */
export function wrap(text, room, width) {
  /** @type {string[]} */
  const lines = [];
  let line = "";
  const words = text.split(" ").filter(Boolean);
  for (const [i, word] of words.entries()) {
    const longer = line ? `${line} ${word}` : word;
    if (line && width(longer) > room) {
      if (lines.length === MOST_LINES - 1) {
        lines.push(shorten([line, ...words.slice(i)].join(" "), room, width));
        return lines;
      }
      lines.push(line);
      line = word;
    } else {
      line = longer;
    }
  }
  return line ? [...lines, shorten(line, room, width)] : lines;
}
