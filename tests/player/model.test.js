import assert from "node:assert/strict";
import { test } from "node:test";

import { DocumentError } from "#player/checks.js";
import { readModel } from "#player/model.js";

import { NUM_RANKS, makeDocument } from "./sample.js";

test("the sample is read", () => {
  const model = readModel(makeDocument());
  assert.equal(model.numRanks, 3);
  assert.equal(model.numSteps, model.doc.steps.length);
  assert.equal(model.initial.length, 3 * 3 * 2 * 3);
  assert.equal(model.times[1], 1e6);
});

test("phases are spans that cover all steps", () => {
  const { phases, phaseOf, numSteps } = readModel(makeDocument());
  assert.deepEqual(phases.map((span) => span.phase), ["forward", "backward", "update"]);
  assert.equal(phases[0].first, 0);
  assert.equal(phases[2].last, numSteps - 1);
  assert.equal(phases[1].first, phases[0].last + 1);
  for (let k = 0; k < numSteps; k += 1) {
    const span = phases[phaseOf[k]];
    assert.ok(span.first <= k && k <= span.last);
  }
});

test("what ranks sent adds up to what the law says", () => {
  const { sentBefore, numSteps, doc } = readModel(makeDocument());
  assert.deepEqual([...sentBefore.slice(0, NUM_RANKS)], [0, 0, 0]);
  assert.deepEqual([...sentBefore.slice(numSteps * NUM_RANKS)], doc.traffic.total);
});

test("a law that is not known has no formula, and sizes may be beyond all bounds", () => {
  const document = makeDocument();
  document.collectives[0].formula = document.collectives[0].filled = -1;
  document.units[0].elements = document.run.num_parameters = 1e30;
  assert.equal(readModel(document).doc.units[0].elements, 1e30);
});

test("bytes without messages count, messages from outside the trace do not", () => {
  const document = makeDocument();
  document.steps[0].sent = [10, 0, 30];
  document.steps[1].packets = [-1, 2, 0, 99, 0, 1];
  const { sentBefore } = readModel(document);
  assert.deepEqual([...sentBefore.slice(2 * NUM_RANKS, 3 * NUM_RANKS)], [10, 0, 30]);
});

/** @type {[string, (document: any) => void, RegExp][]} */
const DAMAGES = [
  ["another schema", (d) => (d.schema = 1), /^schema is 1: expected 2$/],
  ["a beat that leaves a step out", (d) => (d.beats[1].first += 1), /^beats\[1\] is of steps \d+ to \d+: expected it to begin with \d+$/],
  ["a step after the last beat", (d) => d.beats.pop(), /^the beats end with step \d+: expected \d+$/],
  ["a beat about another step", (d) => (d.beats[0].main = 9), /^beats\[0\]\.main is 9: expected one of its steps, 0 to \d+$/],
  ["a beat of nothing", (d) => (d.beats[0].signs = []), /^beats\[0\]\.signs is empty: expected at least one$/],
  ["a sign of its own", (d) => (d.beats[0].signs = ["x"]), /^beats\[0\]\.signs\[0\] is "x": expected "gather"/],
  ["no steps", (d) => (d.steps = []), /^the iteration has no steps to show/],
  ["missing list", (d) => delete d.units, /^units is missing: expected a list$/],
  ["cells too short", (d) => (d.cells = d.cells.slice(1)), /^cells is not 54 digits from 0 to 7/],
  ["a cell that is no code", (d) => (d.cells = `9${d.cells.slice(1)}`), /^cells is not 54 digits/],
  ["a unit out of range", (d) => (d.steps[3].unit = 2), /^steps\[3\]\.unit is 2: .* from -1 to 1$/],
  ["a text out of range", (d) => (d.steps[0].title = 999), /^steps\[0\]\.title is 999/],
  ["a time that is no number", (d) => (d.steps[1].time_ns = null), /^steps\[1\]\.time_ns is null/],
  ["times that descend", (d) => (d.steps[1].time_ns = -1), /^steps\[1\]\.time_ns is before/],
  ["a rank without its clock", (d) => d.local_ns.pop(), /^local_ns has 2 entries: expected 3$/],
  ["half a packet", (d) => d.steps[2].packets.pop(), /^steps\[2\]\.packets is not a list of 6/],
  ["negative bytes", (d) => (d.steps[2].packets[3] = -1), /^steps\[2\]\.packets\[3\] is -1/],
  ["an unknown cell", (d) => (d.steps[2].cells[0] = 54), /^steps\[2\]\.cells\[0\] is 54/],
  ["an unknown code", (d) => (d.steps[2].cells[1] = 8), /^steps\[2\]\.cells\[1\] is 8/],
  ["an unknown kind", (d) => (d.steps[0].kind = "x"), /^steps\[0\]\.kind is "x": expected "mark" or/],
  ["sent of too few", (d) => (d.steps[0].sent = [1]), /^steps\[0\]\.sent has 1 entries: expected 3$/],
  ["a bar of no step", (d) => (d.timeline.bars[6] = 99), /^timeline\.bars\[6\] is 99/],
  ["a ledger too short", (d) => d.collectives[0].wire.pop(), /^collectives\[0\]\.wire has 2/],
  ["memory too short", (d) => d.memory.ranks[0].bytes[1].pop(), /^memory\.ranks\[0\]\.bytes\[1\] has/],
  ["broken nowhere", (d) => (d.broken = { step: 99, reason: "x" }), /^broken\.step is 99/],
];

for (const [name, damage, message] of DAMAGES) {
  test(`damage is refused in one line: ${name}`, () => {
    const document = makeDocument();
    damage(document);
    assert.throws(
      () => readModel(document),
      (error) => error instanceof DocumentError && message.test(error.message) &&
        !error.message.includes("\n"),
    );
  });
}

test("what is no document at all is refused", () => {
  for (const value of [null, 3, "x", [], {}]) {
    assert.throws(() => readModel(value), DocumentError);
  }
});
