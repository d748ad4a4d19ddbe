// Which key does what on the Graph page; its help lists the same table.

import { focusOf } from "#player/keys.js";

/** @typedef {"next" | "previous" | "up" | "down" | "first" | "last" | "pathNext" | "pathPrevious"
 *   | "panRight" | "panLeft" | "zoomIn" | "zoomOut" | "fit" | "replay" | "clear" | "critical" | "waits"
 *   | "theme" | "present" | "help"} Action */

/** @type {readonly {shown: string, keys: readonly string[], action: Action, does: string}[]} */
export const KEYS = [
  { shown: "→", keys: ["ArrowRight"], action: "next", does: "next event of the lane" },
  { shown: "←", keys: ["ArrowLeft"], action: "previous", does: "event before" },
  { shown: "↑ ↓", keys: ["ArrowUp"], action: "up", does: "lane above or below" },
  { shown: "", keys: ["ArrowDown"], action: "down", does: "" },
  { shown: "Home", keys: ["Home"], action: "first", does: "first event of the lane" },
  { shown: "End", keys: ["End"], action: "last", does: "last event of the lane" },
  { shown: ".", keys: ["."], action: "pathNext", does: "next event of the critical path" },
  { shown: ",", keys: [","], action: "pathPrevious", does: "event of the critical path before" },
  { shown: "Enter", keys: ["Enter"], action: "replay", does: "show the event in Replay" },
  { shown: "Esc", keys: ["Escape"], action: "clear", does: "select nothing" },
  { shown: "shift →", keys: ["shift+ArrowRight"], action: "panRight", does: "later" },
  { shown: "shift ←", keys: ["shift+ArrowLeft"], action: "panLeft", does: "earlier" },
  { shown: "+ −", keys: ["+", "=", "shift++"], action: "zoomIn", does: "zoom" },
  { shown: "", keys: ["-", "shift+_"], action: "zoomOut", does: "" },
  { shown: "0", keys: ["0"], action: "fit", does: "the whole iteration" },
  { shown: "c", keys: ["c"], action: "critical", does: "only what is critical" },
  { shown: "w", keys: ["w"], action: "waits", does: "only what waits" },
  { shown: "p", keys: ["p"], action: "present", does: "large, for a wall" },
  { shown: "d", keys: ["d"], action: "theme", does: "light or dark" },
  { shown: "?", keys: ["?", "shift+?"], action: "help", does: "this help" },
];

/** Keys that an element keeps for itself while it has the focus. @type {Record<string, readonly string[]>} */
const OWN = {
  button: ["Enter", " "],
  scroll: ["ArrowUp", "ArrowDown", "Home", "End"],
};

/**
 * The action of a key, or null where it is none of ours.
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
