import assert from "node:assert/strict";
import { test } from "node:test";

import { DocumentError } from "#player/checks.js";
import { readModel } from "#player/model.js";
import { spoken } from "#player/speech.js";
import { NO_STOP, TOUR_MOVES, nameOfStop, narrateStop, playedAt, tourSteps } from "#player/tour.js";

import { makeDocument } from "./sample.js";

const model = readModel(makeDocument());

test("arrows go from stop to stop and end there", () => {
  const { first, back, forward, last } = TOUR_MOVES;
  assert.deepEqual([back(0, 3), forward(0, 3), forward(2, 3), first(2, 3), last(0, 3)], [0, 1, 2, 0, 2]);
  assert.equal(tourSteps(model).length, 3);
});

test("what is freed is shown as gone, at the end of the step that frees it", () => {
  const document = makeDocument();
  document.tour[1].about = "free";
  const freeing = readModel(document);
  assert.deepEqual([0, 1, 2, NO_STOP].map((stop) => playedAt(freeing, stop, null)), [null, 1, null, null]);
  assert.equal(playedAt(freeing, NO_STOP, 0.3), 0.3);
});

test("a stop is read aloud with its number", () => {
  assert.equal(nameOfStop(model, 1), "stop 2 of 3");
  assert.equal(narrateStop(model, 0), "Stop 1 of 3: ZeRO-3 on 3 ranks. Each rank keeps 1/3.");
});

test("signs are said as words", () => {
  assert.equal(spoken("The law is 3Ψ(N−1)/N: 14.9 MB (2.25 Ψ)."), "The law is 3 psi times N minus 1 over N: 14.9 megabytes (2.25 psi).");
  assert.equal(spoken("Each rank keeps 1/4 · 12 kB"), "Each rank keeps 1 over 4 , 12 kilobytes");
});

test("a stop that leads nowhere is refused", () => {
  const document = makeDocument();
  document.tour[1].step = document.steps.length;
  assert.throws(() => readModel(document), DocumentError);
});
