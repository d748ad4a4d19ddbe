// Common to every page with a cursor: one place, one clock, one frame. Every event changes the place and
// requests a frame; the frame draws it. The address follows the place.

import { formatPlace, parsePlace } from "#player/address.js";
import { Clock } from "#player/clock.js";
import { find, setPressed, write } from "#player/dom.js";
import { Fragment } from "#player/fragment.js";
import { effectiveTheme, markPage, storedMode, storedTheme, wantsStill } from "#player/theme.js";
import { NO_STOP } from "#player/tour.js";

/** @import { Ground, Place } from "#player/address.js" */
/** @import { Track } from "#player/scene.d.ts" */

/** While playing, a screen reader hears a step at most so often. */
const NARRATION_MS = 2500;

/** The theme in the address, before anything else is known. */
export function themeOfAddress() {
  const theme = /[#&]theme=(light|dark)\b/.exec(location.hash)?.[1];
  return theme === "light" || theme === "dark" ? theme : storedTheme();
}

/** A page with a cursor; subclasses draw its contents. */
export class Screen {
  /**
   * @param {HTMLElement} root
   * @param {Track} track
   * @param {readonly number[]} ranks global, that can be selected
   * @param {Partial<Ground>} [more] where its beats stand, and the stops of a tour, if it has some
   */
  constructor(root, track, ranks, more = {}) {
    this.root = root;
    this.clock = new Clock(track);
    /** @type {Ground} */
    this.ground = { numSteps: track.numSteps, doc: { ranks }, ...more };
    /** @type {Place} */
    this.place = { ...this.usual() };
    /** @type {boolean | null} no motion; null: as the system wants it */
    this.still = null;
    this.frameAsked = false;
    this.narratedAt = -Infinity;
    this.fragment = new Fragment(() => formatPlace(this.stands(), this.ground), () => this.follow());
    this.narration = find(root, "#narration", HTMLElement);
  }

  /** Draw the place. */
  draw() {
    throw new Error("a screen draws something");
  }

  /** The place in words. @returns {string} */
  narrate() {
    throw new Error("a screen says something");
  }

  /** What a fragment that says nothing means. @returns {Place} */
  usual() {
    const theme = storedTheme();
    return {
      position: 0, isOver: false, tour: NO_STOP, hops: false, rank: 0, mode: storedMode(), theme, speed: 1, table: false, breakpoints: [],
    };
  }

  /** The current place of the clock. @returns {Place} */
  stands() {
    const { position, playing, isOver } = this.clock;
    // navigation leaves the tour
    const left = playing || this.ground.stops?.[this.place.tour] !== position;
    return { ...this.place, position, isOver, tour: left ? NO_STOP : this.place.tour };
  }

  state() {
    const { position, tween, playing } = this.clock;
    return { ...this.place, position, tween, playing };
  }

  /** How the page is to be drawn. */
  look() {
    return { theme: effectiveTheme(this.place.theme), present: this.place.mode === "present" };
  }

  /** Go to the place in the address. */
  follow() {
    const place = { ...this.usual(), ...parsePlace(this.fragment.read(), this.ground) };
    this.clock.seek(place.position, place.isOver);
    this.change(place);
  }

  /** @param {Partial<Place>} part */
  change(part) {
    Object.assign(this.place, part);
    const { theme, mode, speed, hops } = this.place;
    this.clock.speed = speed;
    this.clock.hops = hops;
    this.clock.reduced = this.still ?? wantsStill();
    markPage(theme, mode === "present");
    setPressed(this.root, "#table-toggle", this.place.table);
    setPressed(this.root, "#present", mode === "present");
    this.ask();
  }

  /** @param {number} step @param {boolean} [isOver] its end */
  seek(step, isOver = false) {
    this.clock.seek(step, isOver);
    this.ask();
  }

  /** Ask for one frame; the clock asks for more while it plays. */
  ask() {
    if (!this.frameAsked) {
      this.frameAsked = true;
      requestAnimationFrame((now) => this.frame(now));
    }
  }

  /** @param {number} now */
  frame(now) {
    this.frameAsked = false;
    this.clock.tick(now);
    const { playing } = this.clock;
    Object.assign(this.place, this.stands()); // others hold it
    this.draw();
    if (!playing || now - this.narratedAt > NARRATION_MS) {
      write(this.narration, this.narrate());
      this.narratedAt = now;
    }
    if (playing) {
      this.ask();
    } else {
      this.fragment.writeSoon();
    }
  }
}
