import assert from "node:assert/strict";
import { test } from "node:test";

import {
  formatBytes,
  formatDecimal,
  formatDuration,
  formatExact,
  formatPsi,
  formatRanks,
} from "#player/format.js";

test("an exact number is written exactly", () => {
  assert.equal(formatExact(0), "0");
  assert.equal(formatExact(9_566_208), "9,566,208");
  assert.equal(formatExact(-1234), "-1,234");
  assert.equal(formatExact(Number.MAX_SAFE_INTEGER), "9,007,199,254,740,991");
});

// The values of tests/test_quantities.py: a page and the command line never disagree.
for (const [value, text] of /** @type {[number, string][]} */ ([
  [0, "0 B"],
  [999, "999 B"],
  [1000, "1.00 kB"],
  [9_566_208, "9.57 MB"],
  [-9_566_208, "-9.57 MB"],
  [9_996, "10.0 kB"],
  [99_960, "100 kB"],
  [999_499, "999 kB"],
  [999_999, "1.00 MB"],
  [9009 / 4, "2.25 kB"],
  [1 / 4, "0.25 B"],
  [12_345 * 10 ** 15, "12,345 PB"],
])) {
  test(`bytes are rounded to three digits: ${text}`, () => {
    assert.equal(formatBytes(value), text);
  });
}

test("a half is rounded to even", () => {
  assert.equal(formatBytes(1005), "1.00 kB");
  assert.equal(formatBytes(1015), "1.02 kB");
  assert.equal(formatDecimal(2.5, 0), "2");
  assert.equal(formatDecimal(-0.001, 2), "0.00");
  assert.equal(formatDecimal(-0.006, 2), "-0.01");
});

test("multiples of psi", () => {
  assert.equal(formatPsi(9, 4), "2.25 Ψ");
  assert.equal(formatPsi(1, 3), "0.33 Ψ");
  assert.equal(formatPsi(12, 4), "3.00 Ψ");
});

test("durations have a unit that suits them", () => {
  assert.deepEqual(
    [0, 640, 12_340, 18_420_000, 1.25e9].map(formatDuration),
    ["0 ms", "640 ns", "12.3 µs", "18.42 ms", "1.250 s"],
  );
});

test("ranks are listed in words", () => {
  assert.equal(formatRanks([]), "");
  assert.equal(formatRanks([2]), "2");
  assert.equal(formatRanks([0, 1]), "0 and 1");
  assert.equal(formatRanks([0, 1, 3]), "0, 1 and 3");
  assert.equal(formatRanks([0, 1, 2, 3, 7]), "0–3 and 7");
});
