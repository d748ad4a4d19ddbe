// The keys and their actions. The help lists the same table; an element that needs a key itself keeps it.

import { say } from "#player/words.js";

/**
 * @typedef {object} Key
 * @property {string} shown in the help
 * @property {string[]} keys as `KeyboardEvent.key`; prefixed with "shift+" if shift matters
 * @property {string} action
 * @property {string} does
 */

/** @type {readonly Key[]} */
export const KEYS = [
  { shown: say("keys.space"), keys: [" "], action: "play", does: say("keys.play_or_pause") },
  { shown: "→ PgDn", keys: ["ArrowRight", "PageDown"], action: "forward", does: say("keys.next_beat_or_hop") },
  { shown: "← PgUp", keys: ["ArrowLeft", "PageUp"], action: "back", does: say("keys.previous_beat_or_hop") },
  { shown: "h", keys: ["h"], action: "hops", does: say("keys.hop_by_hop_or_beat_by") },
  { shown: "m", keys: ["m"], action: "more", does: say("keys.more_or_less") },
  { shown: "g", keys: ["g"], action: "tour", does: say("keys.a_tour_of_this_run") },
  { shown: "s", keys: ["s"], action: "say", does: say("keys.say_aloud_what_is_shown") },
  { shown: "/", keys: ["/", "shift+/"], action: "search", does: say("keys.search_beats") },
  { shown: ". ,", keys: ["."], action: "nextHop", does: say("keys.one_step_on_one_back") },
  { shown: "", keys: [","], action: "previousHop", does: "" },
  { shown: "shift →", keys: ["shift+ArrowRight"], action: "nextPhase", does: say("keys.next_phase") },
  { shown: "shift ←", keys: ["shift+ArrowLeft"], action: "previousPhase", does: say("keys.previous_phase") },
  { shown: "Home", keys: ["Home"], action: "first", does: say("keys.first_beat") },
  { shown: "End", keys: ["End"], action: "last", does: say("keys.last_beat") },
  { shown: "1 … 9", keys: [..."123456789"], action: "tenth", does: say("keys.tenths_of_the_iteration") },
  { shown: "o", keys: ["o"], action: "over", does: say("keys.over_past_this_collective") },
  { shown: "i", keys: ["i"], action: "into", does: say("keys.into_the_next_hop") },
  { shown: "u", keys: ["u"], action: "out", does: say("keys.out_of_this_unit") },
  { shown: "↑ ↓", keys: ["ArrowUp"], action: "rankUp", does: say("keys.select_another_rank") },
  { shown: "", keys: ["ArrowDown"], action: "rankDown", does: "" },
  { shown: "b", keys: ["b"], action: "breakHere", does: say("keys.break_at_steps_like_this") },
  { shown: "B", keys: ["B", "shift+B"], action: "breakpoints", does: say("keys.all_breakpoints") },
  { shown: "t", keys: ["t"], action: "table", does: say("keys.this_step_as_a_table") },
  { shown: "r", keys: ["r"], action: "run", does: say("keys.about_this_run") },
  { shown: "x", keys: ["x"], action: "take", does: say("keys.take_away_png_svg_webm") },
  { shown: "p", keys: ["p"], action: "present", does: say("keys.large_for_a_wall") },
  { shown: "d", keys: ["d"], action: "theme", does: say("keys.light_or_dark") },
  { shown: "l", keys: ["l"], action: "language", does: say("keys.other_language") },
  { shown: "?", keys: ["?", "shift+?"], action: "help", does: say("keys.this_help") },
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
 * The action of a key, or null if it has none.
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
