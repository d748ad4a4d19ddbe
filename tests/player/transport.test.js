import assert from "node:assert/strict";
import { test } from "node:test";

import {
  describeBreakpoint,
  findBreaks,
  formatBreakpoint,
  parseBreakpoint,
} from "#player/breakpoints.js";
import { readModel } from "#player/model.js";
import { atTenth, move, next, previous, runTo } from "#player/transport.js";

import { makeDocument } from "./sample.js";

// Steps of the sample: 0 mark; 1 all-gather of embedding, 2 and 3 its hops, 4 compute, 5 reshard;
// 6 all-gather of blocks.0, 7 and 8 its hops, 9 compute, 10 reshard; then 11 ... backward.
const model = readModel(makeDocument());
const LAST = model.numSteps - 1;

test("forward and back stay within the iteration", () => {
  assert.deepEqual([next(model, 0), next(model, LAST)], [1, LAST]);
  assert.deepEqual([previous(model, 0), previous(model, 5)], [0, 4]);
  assert.deepEqual([move("first", model, 9, []), move("last", model, 9, [])], [0, LAST]);
});

test("over leaves the collective, and is one step elsewhere", () => {
  assert.equal(move("over", model, 1, []), 4);
  assert.equal(move("over", model, 2, []), 4);
  assert.equal(move("over", model, 4, []), 5);
  assert.equal(move("over", model, LAST, []), LAST);
});

test("over also passes a computation that goes on beside the hops", () => {
  const document = makeDocument();
  document.steps[2] = { ...document.steps[4], time_ns: document.steps[2].time_ns };
  assert.equal(move("over", readModel(document), 1, []), 4);
});

test("into finds the next hop", () => {
  assert.equal(move("into", model, 0, []), 2);
  assert.equal(move("into", model, 2, []), 3);
  assert.equal(move("into", model, 3, []), 7);
  assert.equal(move("into", model, LAST, []), LAST);
});

test("into finds the next collective where there are no hops", () => {
  const document = makeDocument();
  for (const step of document.steps) {
    step.kind = step.kind === "transfer" ? "copy" : step.kind;
  }
  const native = readModel(document);
  assert.equal(move("into", native, 0, []), 1);
  assert.equal(move("into", native, 1, []), 6);
});

test("out ends the unit", () => {
  assert.equal(move("out", model, 2, []), 6);
  assert.equal(move("out", model, 5, []), 6);
  assert.equal(move("out", model, LAST - 1, []), LAST);
});

test("phases are passed forward and back", () => {
  const [, backward, update] = model.phases;
  assert.equal(move("nextPhase", model, 3, []), backward.first);
  assert.equal(move("nextPhase", model, LAST, []), LAST);
  assert.equal(move("previousPhase", model, backward.first + 2, []), backward.first);
  assert.equal(move("previousPhase", model, backward.first, []), 0);
  assert.equal(move("previousPhase", model, update.first, []), backward.first);
});

test("what runs stops at a breakpoint on its way, what jumps does not", () => {
  assert.equal(move("over", model, 1, [0, 1, 3]), 3);
  assert.equal(move("nextPhase", model, 0, [7]), 7);
  assert.equal(move("last", model, 0, [7]), LAST);
  assert.equal(runTo(model, 3, [3, 8]), 8);
  assert.equal(runTo(model, 8, [3, 8]), LAST);
});

test("tenths of the iteration", () => {
  assert.equal(atTenth(model, 0), 0);
  assert.equal(atTenth(model, 10), LAST);
});

test("breakpoints match by kind, unit, rank and bytes", () => {
  assert.deepEqual(findBreaks(model, []), []);
  assert.deepEqual(findBreaks(model, [{ kind: "transfer", unit: "blocks.0" }]).slice(0, 2), [7, 8]);
  assert.deepEqual(findBreaks(model, [{ kind: "all-gather" }]).slice(0, 2), [1, 6]);
  assert.deepEqual(findBreaks(model, [{ bytes: 401 }]).slice(0, 2), [2, 3]);
  assert.deepEqual(findBreaks(model, [{ bytes: 400, kind: "all-gather" }]).slice(0, 3), [2, 3, 7]);
  assert.equal(findBreaks(model, [{ rank: 1 }]).length, model.numSteps);
  assert.deepEqual(findBreaks(model, [{ rank: 7 }]), []);
});

test("breakpoints are read back from their text", () => {
  for (const breakpoint of [
    { kind: "transfer" },
    { kind: "all-gather", unit: "a,b:c%d;é", rank: 3, bytes: 4096 },
  ]) {
    assert.deepEqual(parseBreakpoint(formatBreakpoint(breakpoint)), breakpoint);
  }
  assert.equal(formatBreakpoint({ kind: "wait", rank: 0 }), "kind:wait,rank:0");
  for (const text of ["", "x", "rank:x", "bytes:-1", "kind:", "unit:%E0%A4%A"]) {
    assert.equal(parseBreakpoint(text), null);
  }
});

test("breakpoints are said in words", () => {
  assert.equal(
    describeBreakpoint({ kind: "transfer", unit: "blocks.0", rank: 1, bytes: 4096 }),
    "transfer of blocks.0 with rank 1 that sends 4.10 kB or more",
  );
});
