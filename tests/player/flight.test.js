// Micro-batches in a pipeline: what each rank computes in a beat, and which of them it keeps.

import assert from "node:assert/strict";
import { test } from "node:test";

import { FLIGHT, flightAt, magnifyFlight, stagesOf, turnIn } from "#player/lens/flight.js";
import { readModel } from "#player/model.js";

import { makeDocument } from "./sample.js";

/** @import { Step } from "#player/types.d.ts" */

/** Three ranks; rank 0 has stages 0 and 2, and one micro-batch goes through both and half of the way back. */
function piped() {
  const document = makeDocument();
  const [plain] = document.steps.filter(({ kind }) => kind === "compute");
  /** @param {Partial<Step>} part @returns {Step} */
  const step = (part) => ({ ...plain, packets: [], cells: [], freed: [], micro_step: 0, ...part });
  const sent = /** @type {const} */ ({ kind: "collective", op: "send", purpose: "send activations", phase: "forward" });
  const made = [
    step({ unit_name: "stage 0.a", phase: "forward", ranks: [0] }),
    step({ ...sent, unit_name: "stage 0", ranks: [0, 1], packets: [0, 1, -1, 8, 0, 1] }),
    step({ unit_name: "stage 1.a", phase: "forward", ranks: [1] }),
    step({ ...sent, unit_name: "stage 2", ranks: [0, 1], packets: [1, 0, -1, 8, 0, 1] }),
    step({ unit_name: "stage 2.a", phase: "forward", ranks: [0] }),
    step({ unit_name: "stage 2.a", phase: "backward", ranks: [0] }),
  ];
  const model = readModel(document);
  const beat = { ...document.beats[0], first: 0, last: 4 };
  const doc = { ...model.doc, steps: made, beats: [beat, { ...beat, first: 5, last: 5 }] };
  return { ...model, doc, beatOf: Int32Array.from([0, 0, 0, 0, 0, 1]) };
}

test("a rank with several stages has each of them for itself", () => {
  const model = piped();
  assert.deepEqual(stagesOf(model), [["stage 0", "stage 2"], ["stage 1"], []]);
  const { NONE, COMES, HERE, DONE } = FLIGHT;
  assert.deepEqual([1, 3, 4, 5].map((position) => flightAt(model, position)), [
    [[[HERE], [NONE]], [[COMES]], []],
    [[[HERE], [COMES]], [[HERE]], []],
    [[[HERE], [HERE]], [[HERE]], []],
    [[[HERE], [DONE]], [[HERE]], []],
  ]);
});

test("each rank that computes in a beat says what", () => {
  const model = piped();
  assert.deepEqual([0, 1, 2].map((rank) => turnIn(model, 0, rank)?.stage), ["stage 0", "stage 1", undefined]);
  assert.equal(turnIn(model, 5, 0)?.phase, "backward");
  const { rows, tiles, words } = magnifyFlight(model, 5, false);
  assert.deepEqual(rows.map(({ label }) => label), ["stages 0 and 1", "stage 2"]);
  assert.deepEqual(tiles[0].map(([tile]) => tile.isNow), [false, true]);
  assert.equal(words[0], "keeps 1 · done 1");
});
