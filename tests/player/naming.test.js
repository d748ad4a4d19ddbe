import assert from "node:assert/strict";
import { test } from "node:test";

import { readModel } from "#player/model.js";
import { lastAt } from "#player/frames.js";
import { barAt, cellAt, layerAt } from "#player/naming/find.js";
import { nameBar, nameCell, nameOfRank, namePacket, spokenName } from "#player/naming/names.js";
import { nextSpot } from "#player/regions.js";
import { TimeWindow, layoutLanes } from "#player/draw/lanes.js";

import { makeDocument } from "./sample.js";

const model = readModel(makeDocument());

test("a cell is found by its column, band and shard, and named with its bytes", () => {
  const place = { left: 10, columns: [{ x: 0, w: 30 }, { x: 40, w: 15 }], bands: [{ y: 0, h: 10 }, { y: 20, h: 10 }] };
  assert.deepEqual(cellAt(place, 3, 31, 25), { state: 1, unit: 0, shard: 2, box: { x: 30, y: 20, w: 10, h: 10 } });
  assert.equal(cellAt(place, 3, 45, 25), null);
  assert.equal(cellAt(place, 3, 31, 15), null);
  const named = nameCell(model, model.initial, { rank: 1, state: 0, unit: 0, shard: 1 });
  assert.equal(named.title, "embedding, shard b on rank 1");
  assert.deepEqual(named.rows.at(-2), ["bytes", "800 B, 400 elements"]);
});

test("a rank says how many it stands for", () => {
  const doc = { ...model.doc, stands_for: [1, 4096, 2] };
  assert.deepEqual([0, 1, 2].map((rank) => nameOfRank(doc, rank)), ["rank 0", "rank 1 and 4,095 more in the same state", "rank 2 and 1 more in the same state"]);
});

test("of bars on each other the shortest is meant", () => {
  const fonts = /** @type {any} */ ({ size: 15 });
  const lanes = layoutLanes({ width: 600, height: 200, numRanks: 3, selected: 0, fonts, labelWidth: 40 });
  const shown = new TimeWindow(100);
  const bars = [0, 0, 0, 0, 0, 100, 1, 0, 0, 2, 0, 40, 50, 1, 1, 0, 0, 0, 0, 100, 2];
  const x = shown.x(45, lanes);
  assert.equal(barAt(bars, lanes, shown, x, 2)?.at, 7);
  assert.equal(barAt(bars, lanes, shown, shown.x(80, lanes), 2)?.at, 0);
  assert.equal(barAt(bars, lanes, shown, x, lanes.rowHeight + 2)?.at, 14);
});

test("areas that lie on each other are told apart by their height", () => {
  assert.deepEqual(layerAt([[10], [0], [5]], 0, 12), { row: 2, below: 10 });
  assert.equal(layerAt([[10], [0], [5]], 0, 16), null);
  assert.equal(lastAt([0, 5, 9], 8), 1);
});

test("a packet and a bar say what they carry, and who asked", () => {
  const position = model.doc.steps.findIndex(({ packets }) => packets.length > 0);
  const [from, to, shard, bytes, start_ns, end_ns] = model.doc.steps[position].packets;
  const packet = spokenName(namePacket(model, position, { from, to, shard, bytes, start_ns, end_ns }));
  assert.match(packet, /^rank \d → rank \d; carries embedding.*shard [abc]; op all-gather/u);
  assert.match(packet, /called from model\.py:41 in Block\.forward$/);
  assert.match(nameBar(model, 0).title, /^rank 0 /);
});

test("a keyboard goes past spots at which there is nothing", () => {
  /** @type {[number, number][]} */
  const spots = [[0, 0], [1, 0], [2, 0]];
  assert.equal(nextSpot(spots, 1, 1, (x) => x !== 1), 2);
  assert.equal(nextSpot(spots, -1, -1, (x) => x === 0), 0);
  assert.equal(nextSpot(spots, 4, 1, () => false), 1);
});
