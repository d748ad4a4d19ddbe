import assert from "node:assert/strict";
import { test } from "node:test";

import { readLedger } from "#player/ledger.js";

import { makeDocument } from "./sample.js";

/** @param {Partial<Record<"theory" | "trace" | "wire" | "framing", number | null>>} amounts */
function ledger(amounts) {
  const collective = makeDocument().collectives[0];
  for (const name of /** @type {const} */ (["theory", "trace", "wire", "framing"])) {
    collective[name] = [9, amounts[name] ?? null, 9];
  }
  return readLedger(collective, 1).map(({ value, agrees, note }) => [value, agrees, note]);
}

test("three ledgers agree when only framing is between trace and wire", () => {
  assert.deepEqual(ledger({ theory: 590976, trace: 590976, wire: 591104, framing: 128 }), [
    ["590,976", true, ""],
    ["590,976", true, ""],
    ["591,104", true, "+ 128 B framing"],
  ]);
});

test("a wire without framing agrees when it is the same", () => {
  assert.deepEqual(ledger({ theory: 8, trace: 8, wire: 8 })[2], ["8", true, ""]);
  assert.deepEqual(ledger({ theory: 8, trace: 8, wire: 8, framing: 0 })[2], ["8", true, ""]);
});

test("what differs says by how much", () => {
  assert.deepEqual(ledger({ theory: 4096, trace: 3072, wire: 3100, framing: 20 }), [
    ["4,096", false, ""],
    ["3,072", false, "− 1,024 B"],
    ["3,100", false, "+ 28 B"],
  ]);
});

test("an unknown framing is no verdict", () => {
  assert.deepEqual(ledger({ theory: 8, trace: 8, wire: 9 })[2], ["9", null, "+ 1 B"]);
});

test("what was not measured says so", () => {
  assert.deepEqual(ledger({ trace: 8 }), [
    ["no law", null, ""],
    ["8", null, ""],
    ["not measured", null, ""],
  ]);
});
