import assert from "node:assert/strict";
import { test } from "node:test";

import {
  GLYPHS, KNOWN_BEAT, LONGEST_BEAT_MS, NEW_BEAT, MEANINGS, SHORTEST_BEAT_MS, beatDuration, besideBeat, hopOf, momentOf, nextBeat, previousBeat, sentenceOf,
  signsIn, spokenBeat,
} from "#player/beats.js";
import { Clock } from "#player/clock.js";
import { Scenes } from "#player/scenes.js";
import { SIGNS } from "#player/document.js";
import { Cells, freedCells, isOverAt } from "#player/frames.js";
import { magnify } from "#player/lens/magnify.js";
import { readModel } from "#player/model.js";
import { MOST_BUTTONS, bandsOf, playedOf, shownBeats } from "#player/strip.js";
import { atTenth, move, stillAfter } from "#player/transport.js";

import { cellOf, makeDocument } from "./sample.js";

const model = readModel(makeDocument());
const { beats } = model.doc;

test("every sign has a glyph", () => {
  for (const sign of SIGNS) {
    assert.equal(typeof GLYPHS[sign], "string");
    assert.ok(MEANINGS[sign].length > 0);
  }
  assert.deepEqual(signsIn(model.doc), ["gather", "compute", "free", "reduce", "update"]);
});

test("at speed 1 a beat lasts 1.5 to 2.5 s, by how much is in it", () => {
  const seen = new Set();
  for (const beat of beats) {
    const { first, last, phase, signs } = beat;
    const whole = model.stepMs.slice(first, last + 1).reduce((sum, ms) => sum + ms, 0);
    const share = seen.has(`${phase} ${signs}`) ? KNOWN_BEAT : NEW_BEAT;
    seen.add(`${phase} ${signs}`);
    assert.ok(Math.abs(whole - share * beatDuration(beat)) < 1e-9);
    assert.ok(beatDuration(beat) >= SHORTEST_BEAT_MS && beatDuration(beat) <= LONGEST_BEAT_MS);
  }
  assert.ok(seen.size < beats.length, "some kinds of beat come again");
  const plain = { ...beats[0], first: 4, last: 4, freed: [], signs: /** @type {["compute"]} */ (["compute"]) };
  assert.equal(beatDuration(plain), 1500);
  assert.equal(beatDuration({ ...plain, last: 6 }), 1900);
  assert.equal(beatDuration({ ...plain, signs: ["compute", "free"] }), 1700);
  assert.equal(beatDuration({ ...plain, last: 60 }), 2500);
});

test("playing takes as long as its beats, and half of it at twice the speed", () => {
  const least = model.stepMs.slice(0, beats[beats.length - 1].first).reduce((sum, ms) => sum + ms, 0);
  for (const speed of [1, 2]) {
    const clock = new Clock(model);
    clock.speed = speed;
    clock.play();
    let now = 0;
    for (; clock.playing; now += 5) {
      clock.tick(now);
    }
    assert.ok(Math.abs(now - least / speed) <= 50, `${now} ms at ${speed}x: expected ${least / speed}`);
  }
});

test("hop by hop each step has its own pace", () => {
  const clock = new Clock(model);
  clock.hops = true;
  clock.play();
  clock.tick(0);
  clock.tick(model.hopMs[0] / 2);
  assert.equal(clock.tween, 0.5);
});

test("forward and back lead from beat to beat, and back to where one was", () => {
  let position = 0;
  const seen = [];
  for (let k = 0; k < beats.length; k += 1) {
    seen.push(position);
    position = move("forward", model, position, [], false);
  }
  assert.deepEqual(seen, beats.map(({ main }) => main));
  assert.equal(position, model.numSteps - 1);
  for (const before of [...seen].reverse().slice(1)) {
    position = move("back", model, position > before ? seen[seen.indexOf(before) + 1] : position, [], false);
    assert.equal(position, before);
  }
  assert.equal(move("first", model, 9, [], false), beats[0].main);
});

test("inside a beat, back leads to what it is about", () => {
  const gather = beats[1];
  assert.equal(previousBeat(model, gather.main + 2), gather.main);
  assert.equal(previousBeat(model, gather.main), beats[0].main);
  assert.equal(nextBeat(model, gather.main + 1), beats[2].main);
  const document = makeDocument();
  document.beats[1].main += 1;
  assert.equal(nextBeat(readModel(document), gather.first), gather.first + 1);
});

test("while hops are on, they are stepped", () => {
  assert.equal(move("forward", model, 2, [], true), 3);
  assert.equal(move("back", model, 2, [], true), 1);
  assert.equal(move("nextHop", model, 2, [], false), 3);
  assert.equal(move("previousHop", model, 2, [], false), 1);
});

test("tenths and phases lead to what beats are about", () => {
  const mains = new Set(beats.map(({ main }) => main));
  for (let tenths = 0; tenths <= 10; tenths += 1) {
    assert.ok(mains.has(atTenth(model, tenths)));
  }
  const backward = move("nextPhase", model, 0, [], false);
  assert.ok(mains.has(backward));
  assert.equal(model.doc.steps[backward].phase, "backward");
  assert.equal(move("previousPhase", model, backward, [], false), beats[0].main);
});

test("a hop has its number, a beat its name and its sentence", () => {
  assert.equal(hopOf(model, 3), "hop 2 of 2");
  assert.equal(hopOf(model, 3, true), "hop 2");
  assert.equal(hopOf(model, 0), "");
  assert.equal(spokenBeat(model, 1), `beat 2 of ${beats.length}: Forward: gather parameters of embedding`);
  const document = makeDocument();
  document.beats[1].meanwhile = document.texts.push("Meanwhile nothing.") - 1;
  assert.equal(sentenceOf(readModel(document), 1), "Every rank does the same in this beat. Meanwhile nothing.");
});

test("what a step frees is gone before the next one begins, and is back before", () => {
  const document = makeDocument();
  document.steps[4].freed = [0];
  const freeing = readModel(document);
  const gathered = [0, 1, 2].flatMap((rank) =>
    [0, 1, 2].filter((shard) => shard !== rank).map((shard) => cellOf(rank, 0, 0, shard)),
  );
  assert.deepEqual(freedCells(freeing, 4).sort((a, b) => a - b), gathered);
  assert.deepEqual(freedCells(freeing, 3), []);
  const cells = new Cells(freeing);
  const before = [...cells.seek(4)];
  const freed = [...cells.over(4, true)];
  assert.ok(gathered.every((cell) => before[cell] === 2 && freed[cell] === 0));
  assert.deepEqual([...cells.seek(4)], before);
  assert.deepEqual(freed, [...cells.seek(5)]);
  assert.deepEqual(
    [isOverAt(freeing, 4, null, true), isOverAt(freeing, 4, 0.5, true), isOverAt(freeing, 4, 0.7, true), isOverAt(freeing, 5, 0.7, true)],
    [false, false, true, false],
  );
});

test("of very many beats those around the current one have buttons", () => {
  assert.deepEqual(shownBeats(33, 20), { first: 0, end: 33 });
  for (const current of [0, 1, 299, 300, 5000, 9999]) {
    const { first, end } = shownBeats(10_000, current);
    assert.equal(end - first, MOST_BUTTONS);
    assert.ok(first <= current && current < end);
    assert.ok(first === 0 || current - first >= 100);
    assert.ok(end === 10_000 || end - current > 100);
  }
});

test("the strip has a band for each phase, and shows how far its beat is", () => {
  assert.deepEqual(
    bandsOf(beats, 0, beats.length).map(({ phase }) => phase),
    ["forward", "backward", "update"],
  );
  const { main, last } = beats[1];
  assert.equal(playedOf(model, main, null), 0);
  assert.equal(playedOf(model, last, 1), 1);
  assert.ok(playedOf(model, main + 1, 0.5) > playedOf(model, main + 1, 0));
});

test("while a beat plays, what is shown is about what its title says", () => {
  const document = makeDocument();
  const at = document.beats.findIndex(({ signs }) => signs.includes("compute"));
  const [beat, next] = document.beats.slice(at, at + 2);
  // the next unit is gathered while this one computes: those steps belong to this beat
  const overlap = { ...beat, last: next.last };
  document.beats.splice(at, 2, overlap);
  const overlapping = readModel(document);
  const scenes = new Scenes(overlapping);
  const seen = { hops: false, tour: -1, marks: [], rank: 0, theme: /** @type {const} */ ("light"), present: false, reduced: false, breakpoints: [] };
  for (let k = overlap.first; k <= overlap.last; k += 1) {
    const scene = scenes.at(k, 0.5, seen);
    assert.equal(scene.now.position, k);
    assert.ok(overlap.units.includes(document.steps[scene.position].unit), `step ${k} shows step ${scene.position}`);
    const isOwn = scene.position === k;
    assert.equal(scene.tween, isOwn ? 0.5 : k > overlap.main ? 1 : 0);
  }
  assert.ok(besideBeat(overlapping, at).length > 0);
  assert.equal(scenes.at(overlap.last, null, seen).position, overlap.last, "a step that is asked for is shown");
});

test("what a beat gathers or reduces is seen on its way, then finished, and so back", () => {
  const still = { position: 0, isOver: false };
  const stills = [still];
  for (let now = still; now.position < model.numSteps - 1; ) {
    now = stillAfter("forward", model, now);
    stills.push(now);
  }
  const results = beats.filter(({ signs }) => signs.some((sign) => ["gather", "reduce"].includes(sign)));
  assert.equal(stills.filter(({ isOver }) => isOver).length, results.length);
  assert.equal(stills.length, beats.length + results.length);
  assert.equal(new Set(stills.map((one) => JSON.stringify(one))).size, stills.length);
  for (const [k, one] of stills.slice(1).entries()) {
    assert.deepEqual(stillAfter("back", model, one), stills[k]);
  }
});

test("the last picture of a beat has its result, at rest and while it plays, though it comes later", () => {
  const scenes = new Scenes(model);
  const seen = { hops: false, tour: -1, marks: [], rank: 0, theme: /** @type {const} */ ("light"), present: false, reduced: false, breakpoints: [] };
  const reduce = beats.findIndex(({ signs }) => signs.includes("reduce"));
  const { position, after } = /** @type {import("#player/scene.d.ts").Result} */ (model.results[reduce]);
  const unit = beats[reduce].units[0];
  /** @param {Uint8Array} codes */
  const gradients = (codes) => [0, 1, 2].map((rank) => [0, 1, 2].map((shard) => codes[cellOf(rank, 1, unit, shard)]));
  const before = gradients(scenes.at(position, null, seen).cells);
  assert.ok(before.flat().includes(5));
  assert.deepEqual(gradients(scenes.at(position, 0.5, seen).cells), before);
  const scene = scenes.at(position, 1, seen);
  assert.equal(scene.isOver, true);
  assert.deepEqual(gradients(scene.cells), gradients(new Cells(model).seek(after)));
  assert.ok(!gradients(scene.cells).flat().includes(5));
  assert.deepEqual(gradients(scenes.at(position, 1, { ...seen, hops: true }).cells), before, "a hop is told alone");
  const { packets, tiles, words } = magnify(model, scene.cells, position, false, true);
  assert.deepEqual(packets, []);
  assert.deepEqual(tiles.map(([row], rank) => row[rank].sum), ["all", "all", "all"]);
  assert.equal(words[0], "has the sum of a");
  assert.equal(momentOf(model, position, { hops: false, isOver: true }, false), "●● the result");
  assert.equal(momentOf(model, position - 1, { hops: false, isOver: false }, false), "◐○ hop 1 of 2");
  assert.equal(momentOf(model, position - 1, { hops: true, isOver: false }, false), "◐○ hop 1 of 2");
  assert.equal(momentOf(model, position - 1, { hops: false, isOver: false }, true), "hop 1");
});

test("a clock rests at the end of a step, and plays on from there", () => {
  const clock = new Clock(model);
  clock.seek(2, true);
  assert.deepEqual([clock.isOver, clock.tween], [true, 1]);
  clock.play();
  clock.tick(0);
  assert.deepEqual([clock.position, clock.isOver], [3, false]);
  clock.seek(2);
  assert.equal(clock.isOver, false);
});
