// The only clock: the displayed step, and its progress. It never reads the time: `tick` receives it, so a
// test plays an iteration without waiting.

/** @import { Track } from "#player/scene.d.ts" */

export const SPEEDS = [0.25, 0.5, 1, 2, 4];

/** A longer pause between two ticks means that the page was hidden: continue from the same place. */
const LONGEST_TICK_MS = 250;

/**
 * How long a step is shown while playing, in milliseconds.
 * @param {Pick<Track, "stepMs" | "hopMs">} model
 * @param {number} position
 * @param {number} speed
 * @param {boolean} [hops] one hop after the other, not beat by beat
 */
export function stepDuration({ stepMs, hopMs }, position, speed, hops = false) {
  return (hops ? hopMs : stepMs)[position] / speed;
}

export class Clock {
  /** @param {Track} model */
  constructor(model) {
    this.model = model;
    this.position = 0;
    /** @type {number | null} 0..1 while a step plays, null at rest, 1 at rest at its end */
    this.tween = null;
    this.playing = false;
    this.speed = 1;
    /** Hop by hop, each at its own pace; else beat by beat. */
    this.hops = false;
    /** Steps change at once. */
    this.reduced = false;
    /** @type {ReadonlySet<number>} steps at which playing stops */
    this.breakpoints = new Set();
    /** Played part of the current step, even if it is not shown. */
    this.played = 0;
    /** @type {number | null} */
    this.lastTick = null;
  }

  /** Play from here; from the beginning where the end is reached. */
  play() {
    if (this.position >= this.model.lastStep) {
      this.seek(0);
    }
    this.played = this.isOver ? 1 : 0;
    this.playing = this.model.lastStep > 0;
    this.lastTick = null;
    this.tween = this.playing && !this.reduced ? this.played : null;
  }

  /** Whether the end of a step is shown, at rest. */
  get isOver() {
    return !this.playing && this.tween === 1;
  }

  pause() {
    this.playing = false;
    this.played = 0;
    this.tween = null;
  }

  /**
   * Show a step, at rest.
   * @param {number} position clamped to the steps that can be shown
   * @param {boolean} [isOver] its end
   */
  seek(position, isOver = false) {
    this.pause();
    this.position = Math.max(0, Math.min(this.model.lastStep, Math.round(position) || 0));
    this.tween = isOver ? 1 : null;
  }

  /**
   * Time has passed.
   * @param {number} now in milliseconds, from any origin
   * @returns {boolean} whether another frame must be drawn
   */
  tick(now) {
    if (!this.playing) {
      return false;
    }
    let left = Math.min(LONGEST_TICK_MS, Math.max(0, now - (this.lastTick ?? now)));
    this.lastTick = now;
    while (this.playing) {
      const duration = stepDuration(this.model, this.position, this.speed, this.hops);
      if (left < duration * (1 - this.played)) {
        this.played += left / duration;
        break;
      }
      left -= duration * (1 - this.played);
      this.advance();
    }
    this.tween = this.playing && !this.reduced ? this.played : null;
    return true;
  }

  advance() {
    this.position += 1;
    this.played = 0;
    if (this.position >= this.model.lastStep || this.breakpoints.has(this.position)) {
      this.pause();
    }
  }
}
