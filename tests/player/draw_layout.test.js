// Where things lie on the canvases, and what a pointer hits there.

import assert from "node:assert/strict";
import { test } from "node:test";

import { hasLabel, hitRow, layoutFold, rowY, sideOf } from "#player/draw/fold.js";
import { TimeWindow, laneY, layoutLanes } from "#player/draw/lanes.js";
import { hit, layoutCards, leastHeight, tightHeight, unitColumns } from "#player/draw/layout.js";
import { placeLabels } from "#player/draw/map.js";
import { label } from "#player/draw/packets.js";
import { headX, stepAtX } from "#player/draw/scrubber.js";
import { scaleOf } from "#player/draw/areas.js";
import { fontsFor, niceStep, numberOf, pickLabels, shorten, unitLabel } from "#player/draw/text.js";

const UNITS = [500_000, 400_000, 400_000, 90_000].map((elements, i) => ({
  name: `blocks.${i}`,
  elements,
  padded_elements: elements,
  trainable: true,
  module: "",
  stage: "",
  hue: 0,
}));
const STATES = [2, 2, 4, 4, 4].map((bytes, i) => ({
  role: `role ${i}`,
  name: "",
  tier: /** @type {const} */ ("device"),
  label: `the role ${i} · bf16`,
  bytes_per_parameter: bytes,
}));
/** Every letter is 8 wide. @param {string} text */
const measure = (text) => text.length * 8;

/** @param {number} numRanks @param {number} [width] @param {number} [height] */
const cardsOf = (numRanks, width = 1250, height = 480) =>
  layoutCards({ width, height, numRanks, units: UNITS, states: STATES, fonts: fontsFor(false), measure });

test("the name of every unit stays below its column, whichever is active", () => {
  const units = ["embedding", "blocks.0", "blocks.1", "blocks.2", "blocks.3", "head"].map((name) => ({ ...UNITS[0], name }));
  const columns = unitColumns([82, 790, 790, 790, 790, 66], 246, 3, 16);
  /** @param {string} text @param {string} font */
  const wider = (text, font) => text.length * (font === fontsFor(false).smallStrong ? 9.6 : 8.3);
  for (const [active] of units.entries()) {
    const labels = placeLabels(units, columns, 246, active, fontsFor(false), wider);
    assert.deepEqual(labels.map(({ unit }) => unit), [0, 1, 2, 3, 4, 5], `while ${units[active].name} is active`);
  }
});

test("unit columns fill the width, grow with elements and keep small ones visible", () => {
  const columns = unitColumns([1_000_000, 250_000, 1], 300, 3, 16);
  const last = columns[columns.length - 1];
  assert.equal(last.x + last.w, 300);
  assert.ok(last.w >= 15);
  // Widths go by the square root: four times the elements, twice the width.
  assert.ok(Math.abs(columns[0].w - 2 * columns[1].w) <= 2);
  assert.equal(columns[1].x - (columns[0].x + columns[0].w), 3);
});

test("more units than fit still have a pixel each and stay inside", () => {
  const columns = unitColumns(Array.from({ length: 90 }, () => 5), 100, 3, 16);
  assert.ok(columns.every((column) => column.w >= 1));
  assert.ok(columns[89].x + columns[89].w <= 101);
  assert.deepEqual(unitColumns([], 100, 3, 16), []);
});

test("heights of bands are bytes", () => {
  const { bands, cards } = cardsOf(4);
  assert.equal(bands[0].h, bands[1].h);
  assert.ok(Math.abs(bands[2].h - 2 * bands[0].h) <= 1);
  assert.ok(bands[4].y + bands[4].h < cards[0].y + cards[0].h);
});

test("all states of three tiers are in the card, with or without room for their names", () => {
  /** @type {["device" | "host" | "disk", string, number][]} */
  const kept = [
    ["device", "parameters", 2], ["device", "gradients", 2], ["host", "parameters", 2], ["host", "gradients", 2],
    ["host", "fp32 master", 4], ["host", "momentum", 4], ["host", "variance", 4], ["disk", "parameters", 2], ["disk", "optimizer states", 12],
  ];
  const states = kept.map(([tier, role, bytes]) => ({ tier, role, name: "", label: role, bytes_per_parameter: bytes }));
  for (const fonts of [fontsFor(false), fontsFor(true)]) {
    const [least, tight] = [leastHeight(states, 0, fonts), tightHeight(states, 0, fonts)];
    assert.ok(tight < least);
    for (const [height, isTight] of /** @type {const} */ ([[least + 40, false], [least, false], [least - 1, true], [tight, true]])) {
      const made = layoutCards({ width: 700, height, numRanks: 2, units: UNITS, states, fonts, measure });
      assert.equal(made.isTight, isTight);
      const [card] = made.cards;
      assert.ok(card.y + card.h <= height);
      assert.ok(made.unitsY + 2 <= card.y + card.h, `names of units at ${height}`);
      assert.ok(made.bands.every(({ y }, i) => i === 0 || y >= made.bands[i - 1].y + made.bands[i - 1].h));
    }
  }
});

test("cards of one to eight ranks lie side by side inside the stage", () => {
  for (const numRanks of [1, 2, 4, 8]) {
    for (const [width, height] of [[1250, 480], [830, 290]]) {
      const { cards } = cardsOf(numRanks, width, height);
      assert.equal(cards.length, numRanks);
      for (const [r, card] of cards.entries()) {
        assert.ok(card.x >= 0 && card.x + card.w <= width, `${numRanks} ranks, ${width}`);
        assert.ok(card.y + card.h <= height);
        assert.ok(r === 0 || card.x > cards[r - 1].x + cards[r - 1].w);
      }
    }
  }
});

test("labels of states go beside the cards where they have no room above the bands", () => {
  assert.equal(cardsOf(4).gutter, false);
  assert.equal(cardsOf(8).gutter, true);
  assert.equal(cardsOf(4, 830, 290).gutter, true);
});

test("a point hits the card that it is in", () => {
  const { cards } = cardsOf(4);
  for (const [r, card] of cards.entries()) {
    assert.equal(hit(cards, card.x + 3, card.y + 3), r);
  }
  assert.equal(hit(cards, cards[0].x + cards[0].w + 2, cards[0].y + 3), -1);
  assert.equal(hit(cards, cards[0].x + 3, cards[0].y + cards[0].h + 3), -1);
});

test("64 ranks fold into two columns that fit; a point hits its row", () => {
  const layout = layoutFold({
    width: 1250, height: 480, numRanks: 64, units: UNITS, states: STATES,
    fonts: fontsFor(false), labelWidth: 18,
  });
  assert.equal(layout.sides.length, 2);
  assert.ok(layout.rowHeight >= 9);
  for (const rank of [0, 31, 32, 63]) {
    const y = rowY(layout, rank);
    assert.ok(y + layout.strip <= 480);
    const x = layout.sides[sideOf(layout, rank)].x + 200;
    assert.equal(hitRow(layout, 64, x, y + 2), rank);
  }
  assert.equal(hitRow(layout, 64, 200, 3), -1);
});

test("a selected row always has its name, and its neighbours make room", () => {
  const layout = layoutFold({
    width: 800, height: 260, numRanks: 64, units: UNITS, states: STATES,
    fonts: fontsFor(false), labelWidth: 18,
  });
  assert.ok(layout.labelEvery > 1);
  assert.ok(hasLabel(layout, 5, 5));
  assert.ok(!hasLabel(layout, 4, 5));
  assert.ok(hasLabel(layout, 16, 5));
});

test("lanes fit in any height and the selected rank is among them", () => {
  for (const [numRanks, height, selected] of [[1, 250, 0], [4, 250, 3], [64, 250, 63], [64, 120, 40]]) {
    const lanes = layoutLanes({
      width: 1200, height, numRanks, selected, fonts: fontsFor(false), labelWidth: 60,
    });
    assert.ok(lanes.count * lanes.rowHeight <= lanes.axisY + 1e-6);
    assert.ok(selected >= lanes.first && selected < lanes.first + lanes.count);
    assert.ok(laneY(lanes, selected, 1) > laneY(lanes, selected, 0));
    assert.ok(laneY(lanes, selected, 1) + lanes.communication <= lanes.axisY);
  }
});

test("the line of the host's launches is above the program, in the row of its rank", () => {
  const given = { width: 1200, height: 250, numRanks: 4, selected: 0, fonts: fontsFor(false), labelWidth: 60 };
  const without = layoutLanes(given);
  const lanes = layoutLanes({ ...given, hasLaunches: true });
  assert.deepEqual([without.launches, lanes.rowHeight], [0, without.rowHeight]);
  assert.equal(laneY(lanes, 2, 0) - lanes.launches, laneY(without, 2, 0));
  assert.ok(laneY(lanes, 2, 1) + lanes.communication <= laneY(lanes, 3, 0) - lanes.launches);
  assert.equal(layoutLanes({ ...given, numRanks: 64, hasLaunches: true }).launches, 0);
});

test("zoom keeps the moment under the pointer, and never leaves the iteration", () => {
  const lanes = { left: 100, width: 1000 };
  const shown = new TimeWindow(1e6);
  const at = /** @type {import("#player/draw/lanes.js").Lanes} */ (/** @type {unknown} */ (lanes));
  const x = shown.x(250_000, at);
  shown.zoom(250_000, 0.2);
  assert.ok(Math.abs(shown.x(250_000, at) - x) < 1e-6);
  assert.ok(Math.abs(shown.ns(x, at) - 250_000) < 1e-3);
  shown.zoom(999_000, 0.0001);
  assert.ok(shown.span >= 100 - 1e-6 && shown.to <= 1e6);
  shown.zoom(500_000, 1e9);
  assert.deepEqual([shown.from, shown.to], [0, 1e6]);
});

test("a moment that has left the window turns the page", () => {
  const shown = new TimeWindow(1000);
  assert.equal(shown.follow(900), false);
  shown.show(0, 100);
  assert.equal(shown.follow(50), false);
  assert.equal(shown.follow(150), true);
  assert.ok(shown.from <= 150 && shown.to >= 150);
  assert.equal(Math.round(shown.span), 100);
});

test("the scrubber's steps and its playhead agree", () => {
  for (let step = 0; step < 7; step += 1) {
    assert.equal(stepAtX(headX(step, null, 500, 7), 500, 7), step);
  }
  assert.equal(stepAtX(-5, 500, 7), 0);
  assert.equal(stepAtX(9999, 500, 7), 6);
});

test("labels of units are short, and the wanted one is always shown", () => {
  assert.equal(unitLabel("embedding"), "emb");
  assert.equal(unitLabel("transformer.h.11"), "h.11");
  assert.equal(unitLabel("blocks.2"), "blocks.2");
  assert.equal(unitLabel("model.head"), "head");
  assert.equal(numberOf("blocks.2"), "2");
  assert.equal(numberOf("head"), "head");
  const labels = [0, 10, 20, 30].map((centre) => ({ centre, width: 12 }));
  assert.deepEqual(pickLabels(labels, 1, 2), [false, true, false, true]);
  assert.deepEqual(pickLabels(labels, -1, 2), [true, false, true, false]);
});

test("a text is cut to its room, and left out where nothing is left of it", () => {
  assert.equal(shorten("momentum", 64, measure), "momentum");
  assert.equal(shorten("momentum", 40, measure), "mome…");
  assert.equal(shorten("momentum", 16, measure), "");
});

test("steps of an axis are 1, 2 or 5 times a power of ten", () => {
  assert.deepEqual([256, 5e3, 9.99e8, 65e9, 2e12].map((most) => scaleOf(most).name), ["B", "kB", "MB", "GB", "TB"]);
  assert.equal(niceStep(24, 4), 10);
  assert.equal(niceStep(16, 4), 5);
  assert.equal(niceStep(0.7, 4), 0.2);
  assert.equal(niceStep(0, 4), 1);
});

test("packets do not cover each other: where ranks are close they say less", () => {
  const packet = { text: "a 41.0 kB", letters: "a" };
  /** @param {number} pitch */
  const written = (pitch) => label(packet, "0→1 ", pitch - 8, pitch, measure);
  assert.equal(written(300), "0→1 a 41.0 kB");
  assert.equal(written(100), "a 41.0 kB");
  assert.equal(written(70), "a");
  const sum = { text: "a(0+1) 41.0 kB", letters: "a(0+1)" };
  assert.deepEqual([90, 40].map((pitch) => label(sum, "", pitch - 8, pitch, measure)), ["a(0+1)", "a"]);
  assert.equal(label({ text: "12 B", letters: "" }, "", 20, 30, measure), "12 B");
});

test("cards without room for bytes with their unit say so", () => {
  assert.equal(cardsOf(4, 1250).isNarrow, false);
  assert.equal(cardsOf(4, 340).isNarrow, true);
});
