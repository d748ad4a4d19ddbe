import assert from "node:assert/strict";
import { test } from "node:test";

import { replayAddress, statesOf } from "#player/compare/cards.js";
import {
  OTHER,
  WAITING,
  amountOf,
  computingOf,
  memoryNow,
  scalesOf,
  sentSoFar,
  timeSoFar,
} from "#player/compare/figures.js";
import { readComparison } from "#player/compare/model.js";
import { layoutGauges, placeParts } from "#player/draw/gauges.js";
import { layoutMap } from "#player/draw/layout.js";
import { fontsFor } from "#player/draw/text.js";
import { memoryAt } from "#player/moment.js";

import { makeDocument } from "./sample.js";

/** @import { Alignment, Phase, What } from "#player/types.d.ts" */

/** @type {[Phase, What, string, number][]} */
const MOMENTS = [
  ["forward", "begins", "", 0],
  ["forward", "computes", "embedding", 3],
  ["backward", "reduced", "blocks.0", 9],
  ["update", "computed", "embedding", 12],
];

/** @returns {Alignment} */
const makeAlignment = () => ({
  moments: MOMENTS.map(([phase, what, unit]) => ({ phase, what, unit, micro_step: 0, nth: 0 })),
  titles: MOMENTS.map(([phase]) => phase),
  whats: MOMENTS.map(() => ""),
  runs: ["one", "two"].map((name) => ({
    name,
    title: name,
    law: "16Ψ/N",
    law_bytes: 9600,
    steps: MOMENTS.map(([, , , step]) => Math.min(step, lastStep)),
    came: MOMENTS.map(() => true),
    follows: MOMENTS.map(() => "next: nothing"),
  })),
  ranks: [0, 1, 2],
  notes: [],
});
const lastStep = makeDocument().steps.length - 1;
const read = () => readComparison(makeAlignment(), [makeDocument(), makeDocument()]);

test("the cursor goes along the moments, by phases", () => {
  const { track, units } = read();
  assert.equal(track.numSteps, MOMENTS.length);
  assert.equal(track.lastStep, MOMENTS.length - 1);
  assert.deepEqual(track.phases.map(({ phase }) => phase), ["forward", "backward", "update"]);
  assert.deepEqual([...track.phaseOf], [0, 0, 1, 2]);
  assert.deepEqual(units.map((of) => [...of]), [[-1, 0, 1, 0], [-1, 0, 1, 0]]);
  for (let m = 1; m < track.numSteps; m += 1) {
    assert.ok(track.times[m] >= track.times[m - 1]);
  }
});

for (const [what, damage] of /** @type {[string, (a: any) => void][]} */ ([
  ["no moment in common", (a) => (a.moments = [])],
  ["titles has 3 entries", (a) => a.titles.pop()],
  ["runs has 1 entries", (a) => a.runs.pop()],
  [`runs[0].steps[3] is 10000`, (a) => (a.runs[0].steps[3] = 10000)],
  ["does not contain rank 7", (a) => (a.ranks = [7])],
  ["runs[1].follows is missing", (a) => delete a.runs[1].follows],
])) {
  test(`an alignment is refused in one line: ${what}`, () => {
    const alignment = makeAlignment();
    damage(alignment);
    assert.throws(
      () => readComparison(alignment, [makeDocument(), makeDocument()]),
      (error) => error instanceof Error && error.message.includes(what) && !error.message.includes("\n"),
    );
  });
}

test("memory is what was recorded, else what the model states are", () => {
  const { runs } = read();
  const [run] = runs;
  const recorded = memoryNow(run, 3, 1, run.model.initial);
  if (run.model.doc.memory) {
    assert.equal(recorded.total, memoryAt(run.model, 3, 1));
  }
  const document = makeDocument();
  document.memory = null;
  const [bare] = readComparison(makeAlignment(), [document, makeDocument()]).runs;
  const { model } = bare;
  const states = memoryNow(bare, 0, 1, model.initial);
  assert.deepEqual(states.parts.map(({ kind }) => kind), model.doc.states.map(({ role }) => role));
  const own = model.doc.units.reduce((sum, unit) => sum + unit.padded_elements / 3, 0);
  assert.equal(amountOf(states, "parameters"), 2 * own);
  assert.equal(states.law, 9600);
});

test("what was sent is what all steps before have sent", () => {
  const { runs } = read();
  const { model } = runs[0];
  let sent = 0;
  for (let step = 0; step < model.numSteps; step += 1) {
    const row = sentSoFar(runs[0], step, 2);
    assert.equal(row.total, sent);
    for (let i = 0; i < model.doc.steps[step].packets.length; i += 6) {
      sent += model.doc.steps[step].packets[i] === 2 ? model.doc.steps[step].packets[i + 3] : 0;
    }
  }
  assert.ok(sent > 0);
});

test("time is computing, waiting and the rest", () => {
  const { runs } = read();
  const { model } = runs[0];
  const row = timeSoFar(runs[0], lastStep, 0);
  const now = model.doc.local_ns[0][lastStep];
  assert.equal(row.total, now);
  assert.equal(computingOf(row) + amountOf(row, WAITING) + amountOf(row, OTHER), now);
  assert.ok(computingOf(row) > 0);
  const before = timeSoFar(runs[0], 0, 0);
  assert.ok(computingOf(before) <= computingOf(row));
});

test("no bar is longer than its scale, at any step", () => {
  const comparison = read();
  for (const rank of comparison.alignment.ranks) {
    const scales = scalesOf(comparison, rank);
    for (const run of comparison.runs) {
      for (let step = 0; step < run.model.numSteps; step += 1) {
        assert.ok((sentSoFar(run, step, rank).total ?? 0) <= scales.sent);
        assert.ok((timeSoFar(run, step, rank).total ?? 0) <= scales.time);
        assert.ok((memoryNow(run, step, rank, run.model.initial).total ?? 0) <= scales.memory);
      }
    }
  }
});

test("a moment is about some states", () => {
  const { states } = makeDocument();
  /** @param {Phase} phase @param {What} what */
  const of = (phase, what) =>
    statesOf({ phase, what, unit: "embedding", micro_step: 0, nth: 0 }, states).map((s) => states[s].role);
  assert.deepEqual(of("forward", "computes"), ["parameters"]);
  assert.deepEqual(of("backward", "computes"), ["parameters"]);
  assert.deepEqual(of("backward", "reduced"), ["gradients"]);
  assert.deepEqual(of("update", "gathered"), ["parameters"]);
  assert.deepEqual(of("update", "computed"), states.map(({ role }) => role));
});

test("a link leads to the very step, whatever a trace is called", () => {
  assert.equal(replayAddress("a&b #c/é", 4, "&rank=2"), "/replay?trace=a%26b%20%23c%2F%C3%A9#at=5&rank=2");
});

test("parts of a bar follow each other", () => {
  const gauge = { name: "", mark: null, value: "", parts: [1, 0, 3].map((amount) => ({ kind: `${amount}`, amount })) };
  assert.deepEqual(placeParts(gauge, 8, 80), [
    { kind: "1", x: 0, w: 10 },
    { kind: "3", x: 10, w: 30 },
  ]);
});

/** @param {string} text */
const measure = (text) => text.length * 8;

test("bars have room beside any name", () => {
  for (const [width, height] of [[640, 130], [290, 60], [120, 20]]) {
    const layout = layoutGauges(width, height, ["x".repeat(80), "y", "z", "w"], "0.21 of 1.50 Ψ", fontsFor(false), measure);
    assert.ok(layout.left <= width * 0.36 + 11);
    assert.ok(layout.bar <= Math.max(4, layout.rowHeight));
    assert.ok(layout.width >= 10);
    assert.ok(layout.top + 4 * layout.rowHeight <= height + 4);
  }
});

test("a map fills its room, with labels above its bands or beside them", () => {
  const { units, states } = makeDocument();
  for (const [width, height] of [[440, 420], [270, 150], [180, 260]]) {
    for (const present of [false, true]) {
      const fonts = fontsFor(present);
      const map = layoutMap({ width, height, units, states, fonts, measure });
      assert.equal(map.bands.length, states.length);
      assert.equal(map.columns.length, units.length);
      for (const [b, band] of map.bands.entries()) {
        assert.ok(b === 0 || band.y >= map.bands[b - 1].y + map.bands[b - 1].h);
      }
      const last = map.columns[map.columns.length - 1];
      assert.ok(map.left + last.x + last.w <= width);
      assert.ok(map.unitsY <= height, `${map.unitsY} in ${height}`);
    }
  }
});
