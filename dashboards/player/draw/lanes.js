// Where the lanes of the timeline lie and which part of the time is shown. Pure.

/** @import { Fonts } from "#player/draw/text.js" */

/** A lane must not be thinner than this. */
const LEAST_ROW = 3;
const MOST_ROW = 84;
const LAUNCHES = 4;

/**
 * @typedef {object} Lanes
 * @property {number} left where time begins
 * @property {number} width of the time
 * @property {number} axisY top of the axis
 * @property {number} rowHeight
 * @property {number} first rank that is shown
 * @property {number} count of ranks that are shown
 * @property {number} labelEvery
 * @property {number} launches height of the line of the host's launches, above the program; 0 without it
 * @property {number} program height of the lane of the program
 * @property {number} communication
 * @property {number} seam between the two
 * @property {number} copies height of all lanes of copies, below the two; 0 if there are none
 * @property {number} copyLanes
 */

/**
 * @param {object} given
 * @param {number} given.width
 * @param {number} given.height
 * @param {number} given.numRanks
 * @param {number} given.selected
 * @param {Fonts} given.fonts
 * @param {number} given.labelWidth
 * @param {number} [given.copyLanes] 2 if a disk is among where copies lead
 * @param {boolean} [given.hasLaunches] whether a device executes what the host launches
 * @returns {Lanes}
 */
export function layoutLanes({
  width, height, numRanks, selected, fonts, labelWidth, copyLanes = 0, hasLaunches = false,
}) {
  const axisY = Math.max(0, Math.round(height - fonts.size - 9));
  const count = Math.max(1, Math.min(numRanks, Math.floor(axisY / LEAST_ROW)));
  const first = Math.max(0, Math.min(numRanks - count, selected - Math.floor(count / 2)));
  const exact = Math.min(MOST_ROW, axisY / count);
  const rowHeight = exact >= 6 ? Math.floor(exact) : exact;
  const gap = rowHeight >= 24 ? 9 : rowHeight >= 10 ? 3 : rowHeight >= 5 ? 1 : 0;
  const seam = rowHeight >= 24 ? 5 : rowHeight >= 10 ? 2 : 0;
  const copies = copyLanes === 0 ? 0 : Math.max(1, Math.round((rowHeight - gap - seam) * (copyLanes > 1 ? 0.36 : 0.24)));
  const launches = hasLaunches && rowHeight >= 10 ? LAUNCHES : 0;
  const lane = rowHeight - gap - seam - copies - launches;
  const program = rowHeight >= 6 ? Math.round(lane * 0.52) : lane * 0.6;
  const left = Math.ceil(labelWidth) + 14;
  return {
    left,
    width: Math.max(10, width - left - 6),
    axisY,
    rowHeight,
    first,
    count,
    labelEvery: [1, 2, 4, 8, 16].find((every) => every * rowHeight >= fonts.size + 2) ?? 32,
    launches,
    program,
    communication: lane - program,
    seam,
    copies,
    copyLanes,
  };
}

/** Top of a lane of a rank. @param {Lanes} lanes @param {number} rank @param {number} lane */
export function laneY({ first, rowHeight, launches, program, seam, communication, copies, copyLanes }, rank, lane) {
  const top = (rank - first) * rowHeight + launches;
  if (lane < 2) {
    return top + (lane === 0 ? 0 : program + seam);
  }
  return top + program + seam + communication + (lane === 3 && copyLanes > 1 ? copies / 2 : 0) + 1;
}

/** Height of a lane. @param {Lanes} lanes @param {number} lane */
export function laneHeight({ program, communication, copies, copyLanes }, lane) {
  return lane === 0 ? program : lane === 1 ? communication : Math.max(1, copies / copyLanes - 1);
}

/** The part of the time that is shown. */
export class TimeWindow {
  /** @param {number} duration */
  constructor(duration) {
    this.duration = Math.max(1, duration);
    this.from = 0;
    this.to = this.duration;
  }

  get span() {
    return this.to - this.from;
  }

  /**
   * Show this part, as far as it is in the iteration; never less than a ten-thousandth of it.
   * @param {number} from
   * @param {number} to
   */
  show(from, to) {
    const span = Math.min(this.duration, Math.max(this.duration / 10000, to - from));
    this.from = Math.max(0, Math.min(this.duration - span, from));
    this.to = this.from + span;
  }

  /**
   * Zoom around a moment that keeps its place.
   * @param {number} ns
   * @param {number} factor less than 1 shows less, larger
   */
  zoom(ns, factor) {
    const span = Math.min(this.duration, this.span * factor);
    const part = (ns - this.from) / this.span;
    this.show(ns - part * span, ns + (1 - part) * span);
  }

  /** Keep a moment in sight: turn the page if the moment has left it. @param {number} ns @returns {boolean}
   *  */
  follow(ns) {
    if (this.span >= this.duration || (ns >= this.from && ns <= this.to)) {
      return false;
    }
    this.show(ns - this.span * 0.08, ns + this.span * 0.92);
    return true;
  }

  reset() {
    this.show(0, this.duration);
  }

  /** @param {number} ns @param {Lanes} lanes */
  x(ns, { left, width }) {
    return left + ((ns - this.from) / this.span) * width;
  }

  /** @param {number} x @param {Lanes} lanes */
  ns(x, { left, width }) {
    const part = Math.max(0, Math.min(1, (x - left) / width));
    return this.from + part * this.span;
  }
}
