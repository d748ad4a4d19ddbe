// The keys of the Graph page; its help lists the same table.

import { focusOf } from "#player/keys.js";
import { say } from "#player/words.js";

/** @typedef {"next" | "previous" | "up" | "down" | "first" | "last" | "pathNext" | "pathPrevious"
 *   | "panRight" | "panLeft" | "zoomIn" | "zoomOut" | "fit" | "replay" | "clear" | "critical" | "waits"
 *   | "theme" | "present" | "language" | "help"} Action */

/** @type {readonly {shown: string, keys: readonly string[], action: Action, does: string}[]} */
export const KEYS = [
  { shown: "→", keys: ["ArrowRight"], action: "next", does: say("graph.keys.next_event_of_the_lane") },
  { shown: "←", keys: ["ArrowLeft"], action: "previous", does: say("graph.keys.event_before") },
  { shown: "↑ ↓", keys: ["ArrowUp"], action: "up", does: say("graph.keys.lane_above_or_below") },
  { shown: "", keys: ["ArrowDown"], action: "down", does: "" },
  { shown: "Home", keys: ["Home"], action: "first", does: say("graph.keys.first_event_of_the_lane") },
  { shown: "End", keys: ["End"], action: "last", does: say("graph.keys.last_event_of_the_lane") },
  { shown: ".", keys: ["."], action: "pathNext", does: say("graph.keys.next_event_of_the_critical_path") },
  { shown: ",", keys: [","], action: "pathPrevious", does: say("graph.keys.event_of_the_critical_path_before") },
  { shown: "Enter", keys: ["Enter"], action: "replay", does: say("graph.keys.show_the_event_in_replay") },
  { shown: "Esc", keys: ["Escape"], action: "clear", does: say("graph.keys.select_nothing") },
  { shown: "shift →", keys: ["shift+ArrowRight"], action: "panRight", does: say("graph.keys.later") },
  { shown: "shift ←", keys: ["shift+ArrowLeft"], action: "panLeft", does: say("graph.keys.earlier") },
  { shown: "+ −", keys: ["+", "=", "shift++"], action: "zoomIn", does: say("graph.keys.zoom") },
  { shown: "", keys: ["-", "shift+_"], action: "zoomOut", does: "" },
  { shown: "0", keys: ["0"], action: "fit", does: say("graph.keys.the_whole_iteration") },
  { shown: "c", keys: ["c"], action: "critical", does: say("graph.keys.only_what_is_critical") },
  { shown: "w", keys: ["w"], action: "waits", does: say("graph.keys.only_what_waits") },
  { shown: "p", keys: ["p"], action: "present", does: say("graph.keys.large_for_a_wall") },
  { shown: "d", keys: ["d"], action: "theme", does: say("graph.keys.light_or_dark") },
  { shown: "l", keys: ["l"], action: "language", does: say("keys.other_language") },
  { shown: "?", keys: ["?", "shift+?"], action: "help", does: say("graph.keys.this_help") },
];

/** Keys that an element keeps for itself while it has the focus. @type {Record<string, readonly string[]>} */
const OWN = {
  button: ["Enter", " "],
  scroll: ["ArrowUp", "ArrowDown", "Home", "End"],
};

/**
 * The action of a key, or null if it has none.
 * @param {KeyboardEvent} event
 * @returns {Action | null}
 */
export function actionOf(event) {
  const focus = focusOf(event.target);
  if (event.ctrlKey || event.altKey || event.metaKey || focus === "text" || focus === "dialog") {
    return null;
  }
  if (!event.shiftKey && OWN[focus]?.includes(event.key)) {
    return null;
  }
  const name = event.shiftKey ? `shift+${event.key}` : event.key;
  return KEYS.find(({ keys }) => keys.includes(name))?.action ?? null;
}
