// The model, unit by unit, lit as the iteration goes through it: forward, then backward. Each rank does so
// with a batch of its own, which data parallelism is about.

import { make, write } from "#player/dom.js";
import { isPipeline } from "#player/lens/flight.js";
import { say } from "#player/words.js";

/** @import { Model, Scene } from "#player/scene.d.ts" */

/** More units than these have no room. */
const MOST_UNITS = 16;

/** A unit's label in a strip: the end of its name. @param {string} name */
function shortName(name) {
  return name.split(".").at(-1) ?? name;
}

/**
 * @param {HTMLElement} host
 * @param {Model} model
 */
export function createModelStrip(host, model) {
  const { doc } = model;
  const count = doc.units.length;
  host.hidden = count < 2 || count > MOST_UNITS || isPipeline(model);
  if (host.hidden) {
    return () => {};
  }
  const units = doc.units.map(({ name }) => make("span", "unit", shortName(name)));
  const way = make("span", "way");
  host.replaceChildren(make("span", "", say("modelstrip.batch")), way, ...units);
  let shown = -1;
  /** @param {Scene} scene */
  return function update({ now: { position } }) {
    const beat = model.beatOf[position];
    if (beat === shown) {
      return;
    }
    shown = beat;
    const { phase, units: lit } = doc.beats[beat];
    host.dataset.phase = phase;
    write(way, phase === "forward" ? "→" : phase === "backward" ? "←" : "·");
    for (const [unit, place] of units.entries()) {
      place.classList.toggle("lit", lit.includes(unit));
    }
  };
}
