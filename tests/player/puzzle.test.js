// What the Puzzles pages work out: what keys do in a program, what is kept, which line is meant.

import assert from "node:assert/strict";
import { test } from "node:test";

import { dedented, indented, newLine, placeOf } from "#player/puzzle/editing.js";
import { parseKept } from "#player/puzzle/programs.js";
import { lineOf } from "#player/puzzle/verdict.js";

/** @import { Edit } from "#player/puzzle/editing.js" */

/**
 * A text in which `[` and `]` say what is selected, after a key.
 * @param {(text: string, start: number, end: number) => Edit} key
 * @param {string} marked
 */
function after(key, marked) {
  const start = marked.indexOf("[");
  const end = marked.indexOf("]") - 1;
  const text = marked.replace(/[[\]]/g, "");
  const edit = key(text, start, end);
  const whole = text.slice(0, edit.from) + edit.by + text.slice(edit.to);
  return `${whole.slice(0, edit.start)}[${whole.slice(edit.start, edit.end)}]${whole.slice(edit.end)}`;
}

test("Tab goes to the next multiple of four, or takes all selected lines further in", () => {
  assert.equal(after(indented, "a\n[]b"), "a\n    []b");
  assert.equal(after(indented, "a\n  b[]c"), "a\n  b []c");
  assert.equal(after(indented, "a[bc]d"), "a   []d");
  assert.equal(after(indented, "x\n  a[\n\nb]c"), "x\n[      a\n\n    b]c");
});

test("Shift+Tab takes one indentation back, and never more than there is", () => {
  assert.equal(after(dedented, "a\n      b[]c"), "a\n  b[]c");
  assert.equal(after(dedented, "a\n  []b"), "a\n[]b");
  assert.equal(after(dedented, "ab[]"), "ab[]");
  assert.equal(after(dedented, "    [a\n      b]\nc"), "[a\n  b]\nc");
});

test("Enter begins as far in as the line was, further after a colon", () => {
  assert.equal(after(newLine, "    a[]"), "    a\n    []");
  assert.equal(after(newLine, "def f():[]"), "def f():\n    []");
  assert.equal(after(newLine, "  if x: [y]"), "  if x: \n      []");
});

test("a line has its place, also one that is not there", () => {
  assert.deepEqual(placeOf("ab\ncde\nf", 2), [3, 6]);
  assert.deepEqual(placeOf("ab\ncde\nf", 9), [7, 8]);
  assert.deepEqual(placeOf("", 1), [0, 0]);
});

test("the line of a verdict", () => {
  assert.equal(lineOf("program/ring.py:14 in reduce_scatter"), 14);
  assert.equal(lineOf("ring.py:7"), 7);
  assert.equal(lineOf(""), 0);
  assert.equal(lineOf(null), 0);
});

test("programs survive storing, and what is none is left out", () => {
  const kept = { "zero-3": { program: "x = 1\n", done: true } };
  assert.deepEqual(parseKept(JSON.stringify(kept)), kept);
  assert.deepEqual(parseKept('{"a": {"program": 7}}'), { a: { program: "", done: false } });
  for (const text of [null, "", "{", "[]", "7", "null", '{"zero-3": 7}', '{"zero-3": []}']) {
    assert.deepEqual(parseKept(text), {}, String(text));
  }
});
