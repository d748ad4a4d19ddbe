import assert from "node:assert/strict";
import { test } from "node:test";

import { Clock, stepDuration } from "#player/clock.js";
import { readModel } from "#player/model.js";

import { makeDocument } from "./sample.js";

/** A clock that goes hop by hop. */
function hopClock() {
  const clock = new Clock(readModel(makeDocument()));
  clock.hops = true;
  return clock;
}

/** @param {Clock} clock @param {number} until @param {number} [from] */
function run(clock, until, from = 0) {
  for (let now = from; now <= until; now += 10) {
    clock.tick(now);
  }
}

test("hop by hop a step lasts as long as in the trace, stretched, within bounds", () => {
  const document = makeDocument();
  document.steps[1].time_ns = 10e6;
  for (const step of document.steps.slice(2)) {
    step.time_ns += 100e6;
  }
  const model = readModel(document);
  assert.equal(stepDuration(model, 0, 1, true), 600);
  assert.equal(stepDuration(model, 0, 4, true), 150);
  assert.equal(stepDuration(model, 1, 1, true), 1600);
  assert.equal(stepDuration(model, 2, 1, true), 350);
  assert.equal(stepDuration(model, 4, 1, true), 250);
  assert.equal(stepDuration(model, model.numSteps - 1, 1, true), 250);
});

test("the replay ends where a law is broken", () => {
  const document = makeDocument();
  document.broken = { step: 3, reason: "x" };
  const clock = new Clock(readModel(document));
  clock.seek(99);
  assert.equal(clock.position, 3);
  clock.seek(2);
  clock.play();
  run(clock, 20_000);
  assert.deepEqual([clock.position, clock.playing], [3, false]);
});

test("at rest there is no tween, and no time passes", () => {
  const clock = new Clock(readModel(makeDocument()));
  assert.equal(clock.tick(1000), false);
  assert.deepEqual([clock.position, clock.tween, clock.playing], [0, null, false]);
});

test("playing tweens a step and goes on to the next", () => {
  const clock = hopClock();
  clock.play();
  clock.tick(5000);
  assert.equal(clock.tween, 0);
  clock.tick(5125);
  assert.equal(clock.tween, 0.5);
  clock.tick(5250);
  assert.deepEqual([clock.position, clock.tween], [1, 0]);
  clock.tick(5300);
  assert.equal(clock.tween, 0.2);
});

test("the last step stops it, and playing again begins anew", () => {
  const clock = new Clock(readModel(makeDocument()));
  clock.speed = 4;
  clock.play();
  run(clock, 10_000);
  assert.deepEqual([clock.position, clock.tween, clock.playing], [clock.model.numSteps - 1, null, false]);
  clock.play();
  assert.deepEqual([clock.position, clock.playing], [0, true]);
});

test("a breakpoint stops it at rest, and playing goes on from there", () => {
  const clock = hopClock();
  clock.breakpoints = new Set([3]);
  clock.play();
  run(clock, 10_000);
  assert.deepEqual([clock.position, clock.tween, clock.playing], [3, null, false]);
  clock.play();
  run(clock, 20_000, 10_000);
  assert.equal(clock.position, clock.model.numSteps - 1);
});

test("reduced motion steps without a tween", () => {
  const clock = hopClock();
  clock.reduced = true;
  clock.play();
  clock.tick(0);
  clock.tick(200);
  assert.deepEqual([clock.position, clock.tween], [0, null]);
  clock.tick(260);
  assert.deepEqual([clock.position, clock.tween], [1, null]);
});

test("a page that was hidden plays on from where it was", () => {
  const clock = hopClock();
  clock.play();
  clock.tick(0);
  clock.tick(60_000);
  assert.equal(clock.position, 1);
});

test("seeking stops and clamps", () => {
  const clock = new Clock(readModel(makeDocument()));
  clock.play();
  clock.seek(1e9);
  assert.deepEqual([clock.position, clock.playing], [clock.model.numSteps - 1, false]);
  clock.seek(-4);
  assert.equal(clock.position, 0);
  clock.seek(NaN);
  assert.equal(clock.position, 0);
});
