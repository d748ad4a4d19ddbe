import assert from "node:assert/strict";
import { test } from "node:test";

import { readLedger } from "#player/ledger.js";

import { makeDocument } from "./sample.js";

/** @param {Partial<Record<"theory" | "trace" | "wire" | "framing" | "excess", number | null>> & { more?: boolean }} amounts */
function ledger(amounts) {
  const collective = makeDocument().collectives[0];
  for (const name of /** @type {const} */ (["theory", "trace", "wire", "framing", "excess"])) {
    collective[name] = [9, amounts[name] ?? null, 9];
  }
  collective.is_more = amounts.more ?? false;
  return readLedger(collective, 1).map(({ value, outcome, note }) => [value, outcome, note]);
}

test("three ledgers agree when only framing is between trace and wire", () => {
  assert.deepEqual(ledger({ theory: 590976, trace: 590976, wire: 591104, framing: 128 }), [
    ["590,976", "as predicted", ""],
    ["590,976", "as predicted", ""],
    ["591,104", "as predicted", "+ 128 B framing"],
  ]);
});

test("a wire without framing agrees when it is the same", () => {
  assert.deepEqual(ledger({ theory: 8, trace: 8, wire: 8 })[2], ["8", "as predicted", ""]);
  assert.deepEqual(ledger({ theory: 8, trace: 8, wire: 8, framing: 0 })[2], ["8", "as predicted", ""]);
});

test("what differs says by how much", () => {
  assert.deepEqual(ledger({ theory: 4096, trace: 3072, wire: 3100, framing: 20 }), [
    ["4,096", "unexplained", ""],
    ["3,072", "unexplained", "− 1,024 B"],
    ["3,100", "unexplained", "+ 28 B"],
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

test("a backend that carries out more than was asked for differs, and is explained", () => {
  const amounts = { theory: 3072, trace: 3072, wire: 6272, framing: 128, excess: 3072 };
  const all = "differs, every byte explained";
  assert.deepEqual(ledger({ ...amounts, more: true })[2], ["6,272", all, "+ 3,072 B algorithm, + 128 B framing"]);
  assert.deepEqual(ledger({ ...amounts, more: true, wire: 6273 })[2], ["6,273", "unexplained", "+ 3,201 B"]);
  const rounded = { ...amounts, wire: 3192, excess: -8 };
  assert.deepEqual(ledger(rounded)[2], ["3,192", "as predicted", "− 8 B algorithm, + 128 B framing"]);
});
