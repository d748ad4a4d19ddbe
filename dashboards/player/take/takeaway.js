// The exports of a replay: `window.__player.take` for the command line, and for the page's menu.

import { Scenes } from "#player/scenes.js";
import { Film, Slides, record } from "#player/take/film.js";
import { Picture } from "#player/take/picture.js";

/** @import { Model } from "#player/scene.d.ts" */
/** @import { Seen } from "#player/scenes.js" */
/** @import { Format } from "#player/take/picture.js" */

/** The contents of a picture. @typedef {Format & Seen & {position: number}} Wanted */
/** The contents of a film: beats from 0, or the tour.
 *  @typedef {Format & Seen & {first: number, last: number, speed: number, isTour: boolean}} WantedFilm */

/** @import { Hosts } from "#player/scene.d.ts" */

const WIDTH = 1280;
/** Figures that are rows need no more. @type {Record<keyof Hosts, number>} */
const HEIGHTS = { stage: 720, timeline: 540, traffic: 400, memory: 720 };

/**
 * How large a picture of a figure is unless someone says otherwise: twice as fine as a screen.
 * @param {keyof Hosts} figure
 * @returns {Format}
 */
export function usual(figure) {
  return { figure, width: WIDTH, height: HEIGHTS[figure], scale: 2 };
}

/** @param {Model} model */
export function takeAway(model) {
  /**
   * @template T
   * @param {Wanted} wanted
   * @param {boolean} isVector
   * @param {(picture: Picture, scene: import("#player/scene.d.ts").Scene) => T} made
   * @returns {T}
   */
  const still = (wanted, isVector, made) => {
    const picture = new Picture(model, wanted, isVector);
    try {
      return made(picture, new Scenes(model).at(wanted.position, null, seenOf(wanted)));
    } finally {
      picture.remove();
    }
  };
  /** @param {WantedFilm} wanted */
  const film = (wanted) => {
    const picture = new Picture(model, wanted, false);
    const [scenes, seen] = [new Scenes(model), seenOf(wanted)];
    return wanted.isTour ? new Slides(picture, scenes, seen, wanted.speed) : new Film(picture, scenes, seen, wanted);
  };
  return {
    /** @param {Wanted} wanted */
    svg: (wanted) => still(wanted, true, (picture, scene) => picture.svg(scene)),
    /** @param {Wanted} wanted */
    png: (wanted) => still(wanted, false, (picture, scene) => picture.png(scene)),
    film,
    usual,
    /** @param {WantedFilm} wanted @param {(part: number) => void} [tell] @param {AbortSignal} [signal] */
    async webm(wanted, tell = () => {}, signal = undefined) {
      const made = film(wanted);
      try {
        return await record(made, tell, signal);
      } finally {
        made.picture.remove();
      }
    },
  };
}

/** @param {Seen} wanted @returns {Seen} */
function seenOf({ hops, tour, marks, rank, theme, present, reduced, breakpoints }) {
  return { hops, tour, marks, rank, theme, present, reduced, breakpoints };
}
