import assert from "node:assert/strict";
import { test } from "node:test";

import { readModel } from "#player/model.js";
import { memoryAt, narrate, readRows } from "#player/moment.js";

import { makeDocument } from "./sample.js";

test("a hop is said in words", () => {
  assert.equal(
    narrate(readModel(makeDocument()), 2, true),
    "Step 3 of 28. Forward: gather parameters of embedding. Ring all-gather, hop 1 of 2: each " +
      "rank forwards what it received before. 3 ranks send 800 B each.",
  );
});

test("a beat is said in its sentence, with who waits in it", () => {
  const document = makeDocument();
  document.beats[1].waiting = document.texts.push("Meanwhile rank 1 waits.") - 1;
  assert.equal(
    narrate(readModel(document), 3, false),
    `Beat 2 of ${document.beats.length}: Forward: gather parameters of embedding. ` +
      "Every rank does the same in this beat. Meanwhile rank 1 waits.",
  );
});

test("a computation sends nothing, and is said so by silence", () => {
  assert.equal(
    narrate(readModel(makeDocument()), 4, true),
    "Step 5 of 28. Compute the output of embedding. Every rank does the same.",
  );
});

test("unequal amounts are a span, one sender is one", () => {
  const document = makeDocument();
  document.steps[0].sent = [5, 0, 0];
  document.steps[4].sent = [5, 7, 0];
  const model = readModel(document);
  assert.match(narrate(model, 0, true), /One rank sends 5 B\.$/);
  assert.match(narrate(model, 4, true), /2 ranks send 5 B to 7 B each\.$/);
});

test("the table has what each rank does", () => {
  assert.deepEqual(readRows(readModel(makeDocument()), 3)[1], {
    rank: 1,
    doing: "Forward: gather parameters of embedding",
    sends: 800,
    to: "2",
    receives: 800,
    copies: 0,
    sent: 800,
    memory: 3600,
  });
});

test("a rank that takes no part still does what goes on", () => {
  const document = makeDocument();
  document.steps[4].until = 5;
  document.steps[5].ranks = [0];
  document.steps[6].ranks = [0];
  const model = readModel(document);
  assert.equal(readRows(model, 5)[2].doing, "Compute the output of embedding");
  assert.equal(readRows(model, 6)[2].doing, "");
});

test("memory is that of the rank's own time", () => {
  const document = makeDocument();
  const memory = /** @type {import("#player/types.d.ts").RankMemory} */ (document.memory?.ranks[0]);
  memory.times_ns = [5e5, 1e9, 2e9, 3e9];
  const model = readModel(document);
  assert.equal(memoryAt(model, 0, 0), null);
  assert.equal(memoryAt(model, 1, 0), 3600);
  document.memory = null;
  assert.equal(memoryAt(model, 1, 0), null);
});
