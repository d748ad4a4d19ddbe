// What the Lessons page works out: places, progress, orders, words.

import assert from "node:assert/strict";
import { test } from "node:test";

import { moved } from "#player/lesson/order.js";
import { stepOf, withFields } from "#player/lesson/place.js";
import { answered, begin, isSettled, noted, parseProgress, reached } from "#player/lesson/progress.js";
import { fill } from "#player/lesson/words.js";

test("a step is read from the address and kept within the lesson", () => {
  assert.equal(stepOf("#step=3", 5), 3);
  assert.equal(stepOf("step=3&theme=dark", 5), 3);
  assert.equal(stepOf("#step=99", 5), 5);
  assert.equal(stepOf("#step=0", 5), 1);
  for (const hash of ["", "#", "#step=", "#step=-1", "#step=x", "#step=1e3", "#step=1234567"]) {
    assert.equal(stepOf(hash, 5), 0, hash);
  }
});

test("fields are set and taken away, the others stay", () => {
  assert.equal(withFields("#theme=dark", { step: "2" }), "#theme=dark&step=2");
  assert.equal(withFields("#at=7&mode=present", { mode: "", theme: "light" }), "#at=7&theme=light");
  assert.equal(withFields("", {}), "#");
});

test("an item moves, and stays in the list", () => {
  assert.deepEqual(moved(["a", "b", "c"], 2, 0), ["c", "a", "b"]);
  assert.deepEqual(moved(["a", "b", "c"], 0, 1), ["b", "a", "c"]);
  assert.deepEqual(moved(["a", "b", "c"], 0, -1), ["a", "b", "c"]);
  assert.deepEqual(moved(["a", "b", "c"], 0, 9), ["b", "c", "a"]);
});

test("progress survives storing, and what is no progress is left out", () => {
  const told = answered(undefined, ["a", "b"], false);
  const progress = { ...reached(begin(), 3, 3), questions: { life: told } };
  assert.deepEqual(parseProgress(JSON.stringify({ zero3: progress })), { zero3: progress });
  for (const text of [null, "", "{", "[]", "7", "null", '"x"', '{"zero3": 7}', '{"zero3": []}']) {
    assert.deepEqual(parseProgress(text), {}, String(text));
  }
  const odd = { step: -2, furthest: "x", done: "yes", questions: { a: { given: 7 }, b: { given: "1", wrong: -1 } } };
  assert.deepEqual(parseProgress(JSON.stringify({ zero3: odd })).zero3, {
    step: 1,
    furthest: 1,
    done: false,
    questions: { b: { given: "1", wrong: 0, right: false, shown: false } },
  });
});

test("wrong answers are counted, a right one stays right", () => {
  const twice = answered(answered(undefined, "1", false), "2", false);
  assert.deepEqual(twice, { given: "2", wrong: 2, right: false, shown: false });
  const right = answered(answered(twice, "3", true), "4", false);
  assert.deepEqual([right.right, right.wrong], [true, 3]);
});

test("an answer that is held is neither right nor wrong until it is judged", () => {
  const held = noted(undefined, "1");
  assert.deepEqual(held, { given: "1", wrong: 0, right: false, shown: false, held: true });
  const again = noted(answered(undefined, "1", false), "2");
  assert.deepEqual(again, { given: "2", wrong: 1, right: false, shown: false, held: true });
  assert.equal(isSettled(again), false);
  const judged = answered(again, "2", true);
  assert.deepEqual(judged, { given: "2", wrong: 1, right: true, shown: false });
  assert.deepEqual([judged, { ...held, shown: true }, undefined].map(isSettled), [true, true, false]);
  const kept = { zero3: { ...begin(), questions: { life: again } } };
  assert.deepEqual(parseProgress(JSON.stringify(kept)), kept);
});

test("the furthest step stays, and the last one ends the lesson", () => {
  const far = reached(reached(begin(), 3, 4), 2, 4);
  assert.deepEqual([far.step, far.furthest, far.done], [2, 3, false]);
  assert.equal(reached(reached(far, 4, 4), 1, 4).done, true);
});

test("words take values, and what has none stays", () => {
  assert.equal(fill("Step {step} of {steps}", { step: 1, steps: 2 }), "Step 1 of 2");
  assert.equal(fill("{nothing}", {}), "{nothing}");
});
