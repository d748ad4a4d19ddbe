import assert from "node:assert/strict";
import { test } from "node:test";

import { readModel } from "#player/model.js";
import { SearchError, findHits, parseQuery } from "#player/search.js";

import { makeDocument } from "./sample.js";

/** @param {(document: ReturnType<typeof makeDocument>) => void} [change] */
function search(/** @type {string} */ text, change = () => {}) {
  const document = makeDocument();
  change(document);
  const model = readModel(document);
  return findHits(model, parseQuery(text)).map(({ beat }) => document.beats[beat]);
}

test("words are looked for in what a step is and does", () => {
  const hits = search("all-gather backward");
  assert.ok(hits.length > 0);
  assert.ok(hits.every((beat) => beat.phase === "backward" && beat.signs.includes("gather")));
  assert.deepEqual(search("no such thing"), []);
  assert.ok(search("BLOCKS.0").length > search("blocks.0 reduce-scatter").length);
});

test("amounts are compared", () => {
  const document = makeDocument();
  const sizes = document.collectives.filter(({ op }) => op === "reduce-scatter").map((one) => one.payload_bytes);
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  assert.equal(search("reduce-scatter").length, 2);
  assert.equal(search(`reduce-scatter > ${least} B`).length, 1);
  assert.equal(search(`reduce-scatter >= ${most / 1000}kB`).length, 1);
  assert.equal(search(`reduce-scatter > ${most} B`).length, 0);
  assert.equal(search("update took > 5 ms").length, 1);
  assert.equal(search("update took > 6 ms").length, 0);
});

test("waits are summed by beat and rank", () => {
  /** @param {ReturnType<typeof makeDocument>} document */
  const waits = (document) => {
    document.steps[document.beats[2].first].waits = [1, 0, 6e6];
  };
  assert.equal(search("wait > 5 ms", waits).length, 1);
  assert.equal(search("wait > 6 ms", waits).length, 0);
  assert.equal(search("wait > 5 ms rank 1", waits).length, 1);
  assert.equal(search("rank 2 wait > 5 ms", waits).length, 0);
  assert.equal(search("waits", waits).length, 1);
});

test("what is not understood is said in one line", () => {
  const wrong = ["> MB", "> 5 parsecs", "wait > 5 MB", "rank x", "rank 77", "beat 900", "wait >"];
  for (const text of wrong) {
    assert.throws(
      () => search(text),
      (error) => error instanceof SearchError && error.message.includes("expected") && !error.message.includes("\n"),
      text,
    );
  }
  assert.deepEqual(search("beat 1").length, 1);
});
