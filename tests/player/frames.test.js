import assert from "node:assert/strict";
import { test } from "node:test";

import { Cells, sentAt, stepAtTime, waitedAt } from "#player/frames.js";
import { readModel } from "#player/model.js";

import { cellOf, makeDocument } from "./sample.js";

test("seeking anywhere gives the bytes of a replay from the start", () => {
  const model = readModel(makeDocument());
  const replayed = model.doc.steps.map((_, k) => {
    const cells = new Cells(model);
    let codes = cells.seek(0);
    for (let step = 1; step <= k; step += 1) {
      codes = cells.seek(step);
    }
    return [...codes];
  });
  const cells = new Cells(model);
  for (let from = 0; from < model.numSteps; from += 1) {
    for (let to = 0; to < model.numSteps; to += 1) {
      assert.deepEqual([...cells.seek(from)], replayed[from]);
      assert.deepEqual([...cells.seek(to)], replayed[to]);
    }
  }
});

test("a cell that changes twice in a step goes back to what it was", () => {
  const document = makeDocument();
  document.steps[0].cells = [0, 3, 0, 2];
  const cells = new Cells(readModel(document));
  assert.equal(cells.seek(0)[0], 2);
  cells.seek(4);
  assert.equal(cells.seek(-1)[0], 1);
});

test("a gathered shard flies, arrives and is freed", () => {
  const model = readModel(makeDocument());
  const cells = new Cells(model);
  const cell = cellOf(0, 0, 0, 2);
  const codes = [0, 1, 2, 3, 4, 5].map((step) => cells.seek(step)[cell]);
  assert.deepEqual(codes, [0, 0, 3, 2, 2, 0]);
});

test("bytes in flight count by the part of the step that has played", () => {
  const model = readModel(makeDocument());
  const sent = new Float64Array(3);
  assert.deepEqual([...sentAt(model, 2, null, sent)], [0, 0, 0]);
  assert.deepEqual([...sentAt(model, 2, 0.5, sent)], [400, 400, 400]);
  assert.deepEqual([...sentAt(model, 3, 0, sent)], [800, 800, 800]);
});

test("a moment belongs to the last step that its rank has begun", () => {
  const model = readModel(makeDocument());
  assert.equal(stepAtTime(model, -5, 0), 0);
  assert.equal(stepAtTime(model, 0, 0), 0);
  assert.equal(stepAtTime(model, 1e6, 0), 1);
  assert.equal(stepAtTime(model, 1e6, 2), 0); // it is a little later everywhere
  assert.equal(stepAtTime(model, 1e6 + 2e4, 2), 1);
  assert.equal(stepAtTime(model, 1e12, 2), model.numSteps - 1);
});

test("how long a rank waits is said of what is shown: a step, or the whole beat", () => {
  const steps = [[0, 0, 5], [0, 5, 9, 1, 0, 2], [0, 9, 30]].map((waits) => ({ waits }));
  const beats = [{ first: 0, last: 1 }, { first: 2, last: 2 }];
  const model = /** @type {any} */ ({ doc: { steps, beats }, beatOf: [0, 0, 1] });
  assert.deepEqual([0, 1].map((rank) => waitedAt(model, 1, rank, true)), [4, 2]);
  assert.deepEqual([0, 1].map((rank) => waitedAt(model, 1, rank, false)), [9, 2]);
});
