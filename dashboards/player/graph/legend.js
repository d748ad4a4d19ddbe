// The meaning of the graph's bars, drawn as in the graph.

import { make } from "#player/dom.js";
import { palette } from "#player/colours.js";
import { dots, rules } from "#player/graph/accents.js";
import { phasesIn } from "#player/graph/filter.js";
import { DISK } from "#player/graph/model.js";
import { named, say } from "#player/words.js";

/** @import { Theme } from "#player/colours.js" */
/** @import { GraphModel } from "#player/graph/model.js" */

/** @param {HTMLElement} list @param {GraphModel} model */
export function createLegend(list, model) {
  const phases = phasesIn(model).filter((phase) => phase !== "outside" && phase !== "setup");

  /** @param {Theme} theme */
  return function update(theme) {
    const colours = palette(theme);
    const communication = phases.map((phase) => colours.communication[phase]);
    const path = `linear-gradient(${colours.strong} 0 0) center / 100% 4px no-repeat`;
    list.replaceChildren(
      ...phases.map((phase) => entry(named(phase), colours.phases[phase])),
      entry(say("graph.legend.collective"), halves(communication)),
      entry(say("graph.legend.arrived_others_missing"), dots(colours.phases[phases[0]] ?? colours.phases.outside)),
      ...model.copyTracks.map((track) => {
        const isDisk = track === DISK;
        return entry(isDisk ? say("graph.legend.copy_disk") : say("graph.legend.copy_bus"), colours.copies[Number(isDisk)]);
      }),
      entry(say("graph.legend.waits"), rules(colours.wait)),
      ...(model.doc.path ? [entry(say("graph.legend.critical_path"), path)] : []),
    );
  };
}

/** @param {string} words @param {string} background */
function entry(words, background) {
  const swatch = make("span", "swatch");
  swatch.style.background = background;
  return make("li", "", swatch, words);
}

/** @param {readonly string[]} colours */
function halves(colours) {
  const stops = colours.map((one, k) => `${one} ${(100 * k) / colours.length}% ${(100 * (k + 1)) / colours.length}%`);
  return stops.length > 0 ? `linear-gradient(90deg, ${stops.join(", ")})` : "";
}
