import assert from "node:assert/strict";
import { test } from "node:test";

import { KEYS, actionOf } from "#player/keys.js";

/**
 * @param {string} key
 * @param {import("#player/keys.js").Focus} [focus]
 * @param {object} [more]
 */
function press(key, focus = "page", more = {}) {
  const none = { shiftKey: false, ctrlKey: false, altKey: false, metaKey: false };
  return actionOf({ key, ...none, ...more }, focus, true);
}

test("keys act on the page", () => {
  assert.equal(press(" "), "play");
  assert.equal(press("PageDown"), "forward");
  assert.equal(press("ArrowRight", "page", { shiftKey: true }), "nextPhase");
  assert.equal(press("B", "page", { shiftKey: true }), "breakpoints");
  assert.equal(press("?", "page", { shiftKey: true }), "help");
  assert.equal(press("7"), "tenth");
  assert.equal(press("z"), null);
});

test("the browser's own combinations are left alone", () => {
  for (const modifier of ["ctrlKey", "altKey", "metaKey"]) {
    assert.equal(press("r", "page", { [modifier]: true }), null);
  }
});

test("an element keeps the keys that it needs", () => {
  assert.equal(press(" ", "button"), null);
  assert.equal(press("o", "button"), "over");
  assert.equal(press("ArrowRight", "range"), null);
  assert.equal(press("ArrowRight", "range", { shiftKey: true }), "nextPhase");
  assert.equal(press(" ", "range"), "play");
  assert.equal(press("ArrowDown", "scroll"), null);
  assert.equal(press("ArrowRight", "scroll"), "forward");
  for (const focus of /** @type {const} */ (["text", "dialog"])) {
    assert.ok(KEYS.every(({ keys }) => keys.every((key) => press(key, focus) === null)));
  }
});

test("keys of one letter can be turned off, others stay", () => {
  const event = { shiftKey: false, ctrlKey: false, altKey: false, metaKey: false };
  assert.equal(actionOf({ ...event, key: "o" }, "page", false), null);
  assert.equal(actionOf({ ...event, key: "5" }, "page", false), null);
  assert.equal(actionOf({ ...event, key: " " }, "page", false), "play");
  assert.equal(actionOf({ ...event, key: "Home" }, "page", false), "first");
});

test("no key has two meanings", () => {
  const all = KEYS.flatMap(({ keys }) => keys);
  assert.equal(new Set(all).size, all.length);
});
