import assert from "node:assert/strict";
import { test } from "node:test";

import { formatPlace, iterationSearch, parsePlace } from "#player/address.js";
import { readModel } from "#player/model.js";

import { makeDocument } from "./sample.js";

const document = makeDocument();
document.ranks = [4, 6, 7];
const model = readModel(document);

/** @type {import("#player/address.js").Place} */
const place = {
  position: 12,
  isOver: true,
  tour: -1,
  hops: true,
  rank: 1,
  mode: "present",
  theme: "dark",
  speed: 0.5,
  table: true,
  breakpoints: [{ kind: "transfer", unit: "a&b=c" }, { bytes: 4096 }],
};

test("a place is read back from its fragment", () => {
  const hash = formatPlace(place, model);
  assert.ok(hash.startsWith("#beat=6&at=13&end=1&hops=1&rank=6&mode=present&theme=dark&speed=0.5&table=1&break=kind:"));
  assert.deepEqual({ ...parsePlace(hash, model), tour: -1 }, place);
});

test("a stop of a tour stands for its step", () => {
  const ground = { ...model, stops: [0, 4, 9] };
  assert.deepEqual(parsePlace("#tour=2", ground), { tour: 1, position: 4 });
  assert.deepEqual(parsePlace("#tour=99&rank=6", ground), { tour: 2, position: 9, rank: 1 });
  assert.deepEqual(parsePlace("#tour=2", model), {}); // a comparison has no tour
  const link = formatPlace({ ...place, tour: 1, position: 4, isOver: false, hops: false, breakpoints: [] }, ground);
  assert.ok(link.startsWith("#tour=2&rank=6&"));
});

test("what is as usual is left out", () => {
  const usual = /** @type {const} */ ({
    position: 0, isOver: false, tour: -1, hops: false, rank: 0, mode: "work", theme: null, speed: 1, table: false,
  });
  assert.equal(formatPlace({ ...usual, breakpoints: [] }, model), "#beat=1");
  const comparison = { numSteps: 9, doc: model.doc };
  assert.equal(formatPlace({ ...usual, position: 4, breakpoints: [] }, comparison), "#at=5");
  assert.deepEqual(parsePlace("#beat=2&hops=1", comparison), {});
});

test("what is out of range is clamped, what is not understood ignored", () => {
  assert.equal(parsePlace("#at=999", model).position, model.numSteps - 1);
  assert.equal(parsePlace("#at=-3", model).position, 0);
  assert.equal(parsePlace("#beat=2", model).position, model.beatMain[1]);
  assert.equal(parsePlace("#beat=999", model).position, model.numSteps - 1);
  assert.equal(parsePlace("#beat=0", model).position, model.beatMain[0]);
  const nonsense = "#at=x&rank=5&mode=loud&theme=pink&speed=3&break=%%%&break=zzz&&=&x";
  assert.deepEqual(parsePlace(nonsense, model), {});
  assert.deepEqual(parsePlace("", model), {});
});

test("an old link, which names a step, opens at that step", () => {
  for (let step = 0; step < model.numSteps; step += 1) {
    assert.equal(parsePlace(`#at=${step + 1}`, model).position, step);
  }
});

test("another iteration keeps the trace", () => {
  assert.equal(iterationSearch("?trace=a%2Fb&iteration=1", 4), "?trace=a%2Fb&iteration=4");
  assert.equal(iterationSearch("", 0), "?iteration=0");
});
