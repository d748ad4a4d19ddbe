// What the magnifier holds: every shard of the active unit on every rank, who is in a sum, what travels.

import assert from "node:assert/strict";
import { test } from "node:test";

import { layoutMagnifier, shownRanks, tileBox, wayOf } from "#player/draw/magnifierlayout.js";
import { fontsFor, wrap } from "#player/draw/text.js";
import { freedRuns } from "#player/draw/map.js";
import { heldBytes } from "#player/draw/moment.js";
import { Cells, freedCells } from "#player/frames.js";
import { sumText } from "#player/lens/carried.js";
import { letterOf, lettersOf } from "#player/lens/letters.js";
import { magnify } from "#player/lens/magnify.js";
import { readModel } from "#player/model.js";

import { NUM_RANKS, cellOf, makeDocument } from "./sample.js";

const model = readModel(makeDocument());
const cells = new Cells(model);

/** @param {(step: import("#player/types.d.ts").Step) => boolean} is */
const at = (is) => model.doc.steps.findIndex(is);

test("a shard has a letter, and many of them a range", () => {
  assert.deepEqual([0, 3, 25, 26, 51, 52].map(letterOf), ["a", "d", "z", "aa", "az", "ba"]);
  assert.equal(lettersOf([0, 1, 3, 4, 5]), "a, b, d–f");
  assert.equal(lettersOf([]), "");
});

test("at a hop of a gather, tiles are the frame's cells of that unit", () => {
  const position = at(({ op, hop }) => op === "all-gather" && hop === 1);
  const codes = cells.seek(position);
  const { tiles, packets, words, caption, rows } = magnify(model, codes, position);
  assert.equal(rows.length, 1);
  for (let rank = 0; rank < NUM_RANKS; rank += 1) {
    assert.deepEqual(tiles[rank][0].map(({ code }) => code), [0, 1, 2].map((shard) => codes[cellOf(rank, 0, 0, shard)]));
  }
  assert.deepEqual(packets.map(({ from, to, shard, text }) => [from, to, shard, text]), [
    [0, 1, 2, "c 800 B"],
    [1, 2, 0, "a 800 B"],
    [2, 0, 1, "b 800 B"],
  ]);
  assert.equal(words[0], "owns a · has c · receives b");
  assert.match(caption, /embedding.*1,200 × 2 B.*each shard 800 B/);
});

test("a sum names the ranks that are in it, before and after a message", () => {
  const first = at(({ op, hop }) => op === "reduce-scatter" && hop === 0);
  const begun = magnify(model, cells.seek(first), first);
  assert.deepEqual(begun.packets.map(({ text }) => text.split(" ")[0]), ["c(0)", "a(1)", "b(2)"]);
  assert.deepEqual(begun.tiles[0][0].map(({ sum }) => sum), ["0", "0", "0"]);
  const next = magnify(model, cells.seek(first + 1), first + 1);
  assert.deepEqual(next.packets.map(({ text }) => text.slice(1, 6)), ["(0+2)", "(0+1)", "(1+2)"]);
  assert.equal(next.words[0], `sends b · adds a`);
  assert.equal(sumText([0, 1, 2], [0, 1, 2], 3), "all");
  assert.equal(sumText([0, 1, 2, 3, 4], [...Array(9).keys()], 9), "5 ranks");
});

test("what a step frees is told while it is there and when it is gone", () => {
  const document = makeDocument();
  document.steps[4].freed = [0];
  const freeing = readModel(document);
  const own = new Cells(freeing);
  assert.equal(magnify(freeing, own.seek(4), 4).words[0], "owns a · frees b, c");
  const { words, tiles } = magnify(freeing, own.over(4, true), 4);
  assert.equal(words[0], "owns a · has freed b, c");
  assert.deepEqual(tiles[0][0].map(({ isFreed, code }) => [isFreed, code]), [[false, 1], [true, 0], [true, 0]]);
});

test("a gradient that is being computed is on its way in the whole model as under the magnifier, and holds nothing yet", () => {
  const position = at(({ kind, phase }) => kind === "compute" && phase === "backward");
  const { unit } = model.doc.steps[position];
  const own = new Cells(model);
  const before = heldBytes(model, own.seek(position), 0);
  const codes = own.shown(position);
  const { tiles, rows } = magnify(model, codes, position);
  const row = rows.findIndex(({ label }) => label === "gradients");
  for (let rank = 0; rank < NUM_RANKS; rank += 1) {
    assert.deepEqual([0, 1, 2].map((shard) => codes[cellOf(rank, 1, unit, shard)]), [3, 3, 3]);
    assert.deepEqual(tiles[rank][row].map(({ code, becomes }) => [code, becomes]), [[3, 4], [3, 4], [3, 4]]);
  }
  assert.equal(heldBytes(model, codes, 0), before);
  const forward = at(({ kind, phase }) => kind === "compute" && phase === "forward");
  assert.deepEqual([...own.shown(forward)], [...own.seek(forward)]);
});

test("a cross is over the shards that are freed, not over the rank's own", () => {
  const document = makeDocument();
  document.steps[4].freed = [0];
  const freeing = readModel(document);
  const freed = freedCells(freeing, 4);
  assert.deepEqual([0, 1, 2].map((rank) => freedRuns(freeing, freed, rank, 0, 0)), [
    [{ from: 1, to: 3 }],
    [{ from: 0, to: 1 }, { from: 2, to: 3 }],
    [{ from: 0, to: 2 }],
  ]);
  assert.deepEqual(freedRuns(freeing, freed, 0, 0, 1), []);
});

test("in a ring of some ranks a message carries what its receiver has as well", () => {
  const document = makeDocument();
  const position = document.steps.findIndex(({ op, hop }) => op === "all-gather" && hop === 0);
  document.collectives[document.steps[position].collective].shards_each = 2;
  document.steps[position].packets = [0, 1, 0, 1600, 0, 1];
  const some = readModel(document);
  const { packets } = magnify(some, new Cells(some).seek(position), position);
  assert.deepEqual(packets.map(({ shards, text }) => [shards, text]), [[[0, 1], "a, b 1.60 kB"]]);
});

test("a call without messages says what goes in and comes out, and makes up no packet", () => {
  const doc = makeDocument();
  const hop = doc.steps.findIndex(({ op, hop: number }) => op === "all-gather" && number === 0);
  const step = doc.steps[hop];
  Object.assign(step, { kind: "collective", packets: [], sent: [1600, 1600, 1600] });
  doc.collectives[step.collective].num_hops = 0;
  const native = readModel(doc);
  const { call, packets, words } = magnify(native, new Cells(native).seek(hop), hop);
  assert.equal(call, "all-gather");
  assert.deepEqual(packets, []);
  assert.equal(words[1], "gives 800 B · gets 2.40 kB");
});

test("an update is of all units of its beat, a hop of its own", () => {
  const position = at(({ phase }) => phase === "update");
  const { rows, tiles } = magnify(model, cells.seek(position), position, false);
  assert.deepEqual(rows.map(({ label }) => label), ["parameters", "gradients", "optimizer"]);
  assert.deepEqual(tiles[1].map((row) => row.map(({ code }) => code)), [[2, 1, 2], [0, 6, 0], [0, 1, 0]]);
});

const given = {
  width: 1216, height: 470, numRows: 1, gutter: 80, hasArcs: true, hasReturn: true, longest: 200, fonts: fontsFor(true),
};

test("the magnifier fits its room with 1 to 64 ranks, and neighbours stay neighbours", () => {
  for (let numRanks = 1; numRanks <= 64; numRanks += 1) {
    for (const [width, height] of [[1216, 470], [740, 300], [3700, 1500], [740, 220]]) {
      const shown = shownRanks(numRanks, 5 % numRanks, []);
      const layout = layoutMagnifier({ ...given, width, height, shown, numRanks });
      for (const { x, w, rows, bottom } of layout.lenses) {
        assert.ok(x >= 0 && x + w <= width && bottom <= height && rows[0].h >= 8, `${numRanks} ranks, ${width} x ${height}`);
      }
    }
  }
  const eight = layoutMagnifier({ ...given, shown: shownRanks(8, 0, []), numRanks: 8 });
  const [third, fourth] = [eight.lenses[3], eight.lenses[4]];
  assert.deepEqual([third.line, fourth.line, third.x], [0, 1, fourth.x]);
  const way = wayOf(eight, 7, 0);
  assert.ok(way[0] < eight.lenses[0].x + eight.lenses[0].w && way[7] < way[1]);
});

test("of many ranks the selected one stands between whom it hears from and whom it tells", () => {
  assert.deepEqual(shownRanks(64, 0, []), [63, 0, 1]);
  assert.deepEqual(shownRanks(16, 3, [{ from: 7, to: 3 }, { from: 3, to: 11 }]), [7, 3, 11]);
});

test("tiles fill their row in order, and do not touch where there is room", () => {
  const row = { x: 10, y: 5, w: 200, h: 60 };
  const boxes = [0, 1, 2, 3].map((shard) => tileBox(row, shard, 4));
  assert.deepEqual(boxes.map(({ x, w }) => [x, w]), [[10, 47], [60, 47], [110, 47], [160, 47]]);
});

test("words go on two lines, and what has no room is cut", () => {
  const width = (/** @type {string} */ text) => text.length;
  assert.deepEqual(wrap("owns a · receives d", 10, 2, width), ["owns a", "receives d"]);
  assert.deepEqual(wrap("owns a · receives d", 12, 1, width), ["owns a · re…"]);
});
