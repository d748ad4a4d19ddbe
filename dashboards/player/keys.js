// Which key does what. The help lists the same table; an element that needs a key itself keeps it.

/**
 * @typedef {object} Key
 * @property {string} shown in the help
 * @property {string[]} keys as `KeyboardEvent.key`; "shift+" in front where it matters
 * @property {string} action
 * @property {string} does
 */

/** @type {readonly Key[]} */
export const KEYS = [
  { shown: "space", keys: [" "], action: "play", does: "play or pause" },
  { shown: "→ PgDn", keys: ["ArrowRight", "PageDown"], action: "forward", does: "next beat, or hop" },
  { shown: "← PgUp", keys: ["ArrowLeft", "PageUp"], action: "back", does: "previous beat, or hop" },
  { shown: "h", keys: ["h"], action: "hops", does: "hop by hop, or beat by beat" },
  { shown: "g", keys: ["g"], action: "tour", does: "a tour of this run" },
  { shown: "s", keys: ["s"], action: "say", does: "say aloud what is shown" },
  { shown: "/", keys: ["/", "shift+/"], action: "search", does: "search beats" },
  { shown: ". ,", keys: ["."], action: "nextHop", does: "one step on, one back" },
  { shown: "", keys: [","], action: "previousHop", does: "" },
  { shown: "shift →", keys: ["shift+ArrowRight"], action: "nextPhase", does: "next phase" },
  { shown: "shift ←", keys: ["shift+ArrowLeft"], action: "previousPhase", does: "previous phase" },
  { shown: "Home", keys: ["Home"], action: "first", does: "first beat" },
  { shown: "End", keys: ["End"], action: "last", does: "last beat" },
  { shown: "1 … 9", keys: [..."123456789"], action: "tenth", does: "tenths of the iteration" },
  { shown: "o", keys: ["o"], action: "over", does: "over: past this collective" },
  { shown: "i", keys: ["i"], action: "into", does: "into: the next hop" },
  { shown: "u", keys: ["u"], action: "out", does: "out of this unit" },
  { shown: "↑ ↓", keys: ["ArrowUp"], action: "rankUp", does: "select another rank" },
  { shown: "", keys: ["ArrowDown"], action: "rankDown", does: "" },
  { shown: "b", keys: ["b"], action: "breakHere", does: "break at steps like this" },
  { shown: "B", keys: ["B", "shift+B"], action: "breakpoints", does: "all breakpoints" },
  { shown: "t", keys: ["t"], action: "table", does: "this step as a table" },
  { shown: "r", keys: ["r"], action: "run", does: "about this run" },
  { shown: "x", keys: ["x"], action: "take", does: "take away: PNG, SVG, WebM" },
  { shown: "p", keys: ["p"], action: "present", does: "large, for a wall" },
  { shown: "d", keys: ["d"], action: "theme", does: "light or dark" },
  { shown: "?", keys: ["?", "shift+?"], action: "help", does: "this help" },
];

/** What has the focus: it decides which keys are its own.
 *  @typedef {"page" | "button" | "range" | "scroll" | "drawing" | "text" | "dialog"} Focus */

/** @type {Record<"page" | "button" | "range" | "scroll" | "drawing", readonly string[]>} */
const OWN_KEYS = {
  page: [],
  button: [" ", "Enter"],
  range: ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"],
  drawing: ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"],
  scroll: ["ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", " "],
};

/**
 * The action of a key, or null where it is none of ours.
 * @param {{key: string, shiftKey: boolean, ctrlKey: boolean, altKey: boolean, metaKey: boolean}} event
 * @param {Focus} focus
 * @param {boolean} letters whether keys of one letter act
 */
export function actionOf(event, focus, letters) {
  const { key, shiftKey } = event;
  if (event.ctrlKey || event.altKey || event.metaKey || focus === "text" || focus === "dialog") {
    return null;
  }
  if (!letters && key.length === 1 && key !== " ") {
    return null;
  }
  if (!shiftKey && OWN_KEYS[focus].includes(key)) {
    return null;
  }
  const name = shiftKey ? `shift+${key}` : key;
  return KEYS.find(({ keys }) => keys.includes(name))?.action ?? null;
}

/**
 * @param {EventTarget | null} target
 * @returns {Focus}
 */
export function focusOf(target) {
  if (!(target instanceof Element)) {
    return "page";
  }
  if (target.closest("dialog")) {
    return "dialog";
  }
  if (target instanceof HTMLInputElement && target.type === "range") {
    return "range";
  }
  if (target.closest("[data-named]")) {
    return "drawing";
  }
  if (target.closest("input, select, textarea, [contenteditable]")) {
    return "text";
  }
  if (target.closest("button, a, summary")) {
    return "button";
  }
  return target.closest(".scroll") ? "scroll" : "page";
}
