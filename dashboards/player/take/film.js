// An interval of beats as it plays: by requested frames, or recorded while it plays.

import { sentenceOf } from "#player/beats.js";
import { Clock } from "#player/clock.js";

/** @import { Scenes, Seen } from "#player/scenes.js" */
/** @import { Picture } from "#player/take/picture.js" */

/** The last picture stays so long. */
const LAST_MS = 1500;
/** To read a word, 180 a minute, and the shortest text. */
const WORD_MS = 333;
const LEAST_READING_MS = 3000;
const BITS_PER_SECOND = 8e6;
/** What a browser may be able to write, the best first. */
const TYPES = ["video/webm;codecs=vp9", "video/webm;codecs=vp8", "video/webm"];

/** The form in which this browser records films; "" if in none. */
export function filmType() {
  const can = typeof MediaRecorder === "function" && "captureStream" in HTMLCanvasElement.prototype;
  return can ? (TYPES.find((type) => MediaRecorder.isTypeSupported(type)) ?? "") : "";
}

/** A recordable picture: it draws the display at a time, and returns whether it continues. `isNew`: that
 *  the picture differs from the previous one.
 *  @typedef {{picture: Picture, at: (now: number) => boolean, part: number, isNew: boolean}} Show */

/** The stops of a tour, each as a still picture for as long as its words are read. */
export class Slides {
  /**
   * @param {Picture} picture
   * @param {Scenes} scenes
   * @param {Seen} seen
   * @param {number} speed
   */
  constructor(picture, scenes, seen, speed) {
    this.picture = picture;
    this.scenes = scenes;
    this.seen = seen;
    let end = 0;
    /** @type {readonly number[]} when each is over, in ms */
    this.ends = scenes.model.doc.tour.map(({ title, text }) => (end += readingTime(`${title} ${text}`) / speed));
    picture.beside = scenes.model.doc.tour.map(({ text }) => text);
    /** @type {number | null} */
    this.began = null;
    this.part = 0;
    this.isNew = true;
    this.shown = -1;
  }

  /** @param {number} now in ms, from any origin @returns {boolean} */
  at(now) {
    this.began ??= now;
    const { ends, scenes, seen } = this;
    const passed = now - this.began;
    const after = ends.findIndex((end) => passed < end);
    const tour = after < 0 ? ends.length - 1 : after;
    this.isNew = tour !== this.shown;
    if (this.isNew) {
      this.shown = tour;
      this.picture.draw(scenes.at(scenes.model.doc.tour[tour].step, null, { ...seen, tour }));
    }
    this.part = Math.min(1, passed / (ends.at(-1) ?? 1));
    return after >= 0;
  }
}

/** How long a text is shown to be read, in ms. @param {string} text */
function readingTime(text) {
  return Math.max(LEAST_READING_MS, text.split(" ").length * WORD_MS);
}

/** Frames of a stretch, in the order of time. */
export class Film {
  /**
   * @param {Picture} picture
   * @param {Scenes} scenes
   * @param {Seen} seen
   * @param {{first: number, last: number, speed: number}} stretch beats, from 0, both of them shown
   */
  constructor(picture, scenes, seen, { first, last, speed }) {
    const { model } = scenes;
    const { beats } = model.doc;
    this.picture = picture;
    this.scenes = scenes;
    this.seen = seen;
    const end = Math.min(model.lastStep, beats[last].last);
    this.clock = new Clock({ ...model, lastStep: end });
    this.clock.speed = speed;
    this.clock.hops = seen.hops;
    this.clock.seek(beats[first].first);
    this.begin = this.clock.position;
    this.end = end;
    if (this.begin < end) {
      this.clock.play();
    }
    picture.beside = beats.slice(first, last + 1).map((_, k) => sentenceOf(model, first + k));
    this.endedAt = NaN;
    this.isNew = true;
    this.shownAt = NaN;
  }

  /**
   * Draw the display at a time; never before the last requested one.
   * @param {number} now in ms, from any origin
   * @returns {boolean} whether it continues
   */
  at(now) {
    const { clock } = this;
    clock.tick(now);
    const moment = clock.position + (clock.tween ?? 0.5);
    this.isNew = moment !== this.shownAt;
    if (this.isNew) {
      this.shownAt = moment;
      this.picture.draw(this.scenes.at(clock.position, clock.tween, this.seen));
    }
    if (!clock.playing && Number.isNaN(this.endedAt)) {
      this.endedAt = now;
    }
    return clock.playing || now - this.endedAt < LAST_MS;
  }

  /** How much of it is over, 0 to 1. */
  get part() {
    return this.end > this.begin ? (this.clock.position - this.begin) / (this.end - this.begin) : 1;
  }
}

/**
 * Record a film while it plays: it takes as long as it is.
 * @param {Show} film
 * @param {(part: number) => void} tell how much of it is recorded
 * @param {AbortSignal} [signal] leave it
 * @returns {Promise<Blob>} WebM
 */
export async function record(film, tell, signal) {
  const recorder = new MediaRecorder(film.picture.canvas.captureStream(), {
    mimeType: filmType(),
    videoBitsPerSecond: BITS_PER_SECOND,
  });
  /** @type {Blob[]} */
  const chunks = [];
  recorder.addEventListener("dataavailable", ({ data }) => chunks.push(data));
  const stopped = new Promise((done) => recorder.addEventListener("stop", done, { once: true }));
  recorder.start();
  await new Promise((done) => {
    /** @param {number} now */
    const frame = (now) => {
      if (film.at(now) && !signal?.aborted) {
        tell(film.part);
        requestAnimationFrame(frame);
      } else {
        done(undefined);
      }
    };
    requestAnimationFrame(frame);
  });
  recorder.stop();
  await stopped;
  signal?.throwIfAborted();
  return new Blob(chunks, { type: "video/webm" });
}
