// The model, unit by unit, lit as the iteration goes through it: forward, then backward. Each rank does so
// with a batch of its own, which data parallelism is about.

import { make, write } from "#player/dom.js";
import { isPipeline } from "#player/lens/flight.js";
import { say } from "#player/words.js";

/** @import { Model, Scene } from "#player/scene.d.ts" */

/** More units than these have no room. */
const MOST_UNITS = 16;

/** A unit's label: that of its beats; without any, the end of its name. @param {Model} model @param {number} unit */
function labelOf({ doc: { beats, units } }, unit) {
  const own = beats.find((beat) => beat.label && beat.units.length === 1 && beat.units[0] === unit);
  return own?.label ?? units[unit].name.split(".").at(-1) ?? "";
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
  const units = doc.units.map((_, unit) => make("span", "unit", labelOf(model, unit)));
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
