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
  position: 11,
  rank: 1,
  mode: "present",
  theme: "dark",
  speed: 0.5,
  table: true,
  breakpoints: [{ kind: "transfer", unit: "a&b=c" }, { bytes: 4096 }],
};

test("a place is read back from its fragment", () => {
  const hash = formatPlace(place, model);
  assert.ok(hash.startsWith("#at=12&rank=6&mode=present&theme=dark&speed=0.5&table=1&break=kind:"));
  assert.deepEqual(parsePlace(hash, model), place);
});

test("what is as usual is left out", () => {
  const usual = /** @type {const} */ ({
    position: 0, rank: 0, mode: "work", theme: null, speed: 1, table: false,
  });
  assert.equal(formatPlace({ ...usual, breakpoints: [] }, model), "#at=1");
});

test("what is out of range is clamped, what is not understood ignored", () => {
  assert.equal(parsePlace("#at=999", model).position, model.numSteps - 1);
  assert.equal(parsePlace("#at=-3", model).position, 0);
  const nonsense = "#at=x&rank=5&mode=loud&theme=pink&speed=3&break=%%%&break=zzz&&=&x";
  assert.deepEqual(parsePlace(nonsense, model), {});
  assert.deepEqual(parsePlace("", model), {});
});

test("another iteration keeps the trace", () => {
  assert.equal(iterationSearch("?trace=a%2Fb&iteration=1", 4), "?trace=a%2Fb&iteration=4");
  assert.equal(iterationSearch("", 0), "?iteration=0");
});
