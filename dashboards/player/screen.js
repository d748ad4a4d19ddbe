// What every page with a cursor does: one place, one clock, one frame. Whatever happens changes the
// place and asks for a frame; the frame draws it. The address says where it stands.

import { formatPlace, parsePlace } from "#player/address.js";
import { Clock } from "#player/clock.js";
import { find, setPressed, write } from "#player/dom.js";
import { effectiveTheme, markPage, storedMode, storedTheme, wantsStill } from "#player/theme.js";
import { NO_STOP } from "#player/tour.js";

/** @import { Ground, Place } from "#player/address.js" */
/** @import { Track } from "#player/scene.d.ts" */

/** While playing, a screen reader hears a step at most so often. */
const NARRATION_MS = 2500;
/** A browser takes only so many new addresses a second. */
const ADDRESS_MS = 300;

/** What the address says of the theme before anything else is known. */
export function themeOfAddress() {
  const theme = /[#&]theme=(light|dark)\b/.exec(location.hash)?.[1];
  return theme === "light" || theme === "dark" ? theme : storedTheme();
}

/** A page with a cursor; what it shows is for who extends it to draw. */
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
    this.addressTimer = 0;
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
      position: 0, tour: NO_STOP, hops: false, rank: 0, mode: storedMode(), theme, speed: 1, table: false, breakpoints: [],
    };
  }

  state() {
    const { position, tween, playing } = this.clock;
    return { ...this.place, position, tween, playing };
  }

  /** How the page is to be drawn. */
  look() {
    return { theme: effectiveTheme(this.place.theme), present: this.place.mode === "present" };
  }

  /** Show what the address says. */
  follow() {
    const place = { ...this.usual(), ...parsePlace(location.hash, this.ground) };
    this.clock.seek(place.position);
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

  /** @param {number} step */
  seek(step) {
    this.clock.seek(step);
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
    this.place.position = this.clock.position;
    if (playing || this.ground.stops?.[this.place.tour] !== this.place.position) {
      this.place.tour = NO_STOP; // who goes elsewhere has left the tour
    }
    this.draw();
    if (!playing || now - this.narratedAt > NARRATION_MS) {
      write(this.narration, this.narrate());
      this.narratedAt = now;
    }
    if (playing) {
      this.ask();
    } else {
      this.writeAddress();
    }
  }

  writeAddress() {
    clearTimeout(this.addressTimer);
    this.addressTimer = window.setTimeout(() => {
      const hash = formatPlace(this.place, this.ground);
      if (!this.clock.playing && hash !== location.hash) {
        history.replaceState(history.state, "", hash);
      }
    }, ADDRESS_MS);
  }
}
