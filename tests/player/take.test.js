// Pictures that are taken away: what is drawn as SVG, and where the words lie.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Markup, escape } from "#player/take/markup.js";
import { Pen } from "#player/take/pen.js";
import { wrap } from "#player/take/sheet.js";

const width = (/** @type {string} */ text) => 10 * text.length;
const makePen = () => new Pen(new Markup(100, 50), width);

test("shapes and texts are elements with what was set before", () => {
  const pen = makePen();
  pen.fillStyle = "#123456";
  pen.fillRect(1, 2, 3.004, 4);
  pen.font = '600 15px "A B"';
  pen.textAlign = "right";
  pen.fillText("a < b", 9, 8);
  pen.setLineDash([3, 2]);
  pen.beginPath();
  pen.moveTo(0, 0);
  pen.bezierCurveTo(1, 2, 3, 4, 5, 6);
  pen.stroke();
  assert.deepEqual(pen.parts, [
    '<rect x="1" y="2" width="3" height="4" fill="#123456"/>',
    '<text x="9" y="8" fill="#123456" font-weight="600" font-size="15" font-family="&quot;A B&quot;" text-anchor="end">a &lt; b</text>',
    '<path d="M0 0C1 2 3 4 5 6" fill="none" stroke="#000000" stroke-width="1" stroke-dasharray="3 2"/>',
  ]);
});

test("a circle is closed, and what is moved is moved", () => {
  const pen = makePen();
  pen.save();
  pen.translate(10, 20);
  pen.beginPath();
  pen.arc(0, 0, 5, 0, 7);
  pen.fill();
  pen.restore();
  assert.deepEqual(pen.parts, [
    '<path d="M5 0A5 5 0 1 1 -5 0A5 5 0 1 1 5 0" fill="#000000" transform="matrix(1 0 0 1 10 20)"/>',
  ]);
  assert.deepEqual(pen.matrix, [1, 0, 0, 1, 0, 0]);
});

test("a tile and a clip are written once", () => {
  const pen = makePen();
  for (let i = 0; i < 2; i += 1) {
    pen.fillStyle = pen.tile("hatch", 8, (ctx) => ctx.fillRect(0, 0, 8, 8));
    pen.save();
    pen.beginPath();
    pen.rect(0, 0, 5, 5);
    pen.clip();
    pen.fillRect(0, 0, 9, 9);
    pen.restore();
  }
  pen.fillRect(7, 7, 1, 1);
  const text = pen.markup.document(pen.parts, "t", "");
  assert.equal(text.match(/<pattern /g)?.length, 1);
  assert.equal(text.match(/<clipPath /g)?.length, 1);
  assert.ok(pen.parts[0].startsWith('<g clip-path="url(#z1)"><rect'));
  assert.ok(pen.parts[2].startsWith("<rect"));
});

test("what it does not know it refuses", () => {
  const pen = /** @type {any} */ (makePen());
  assert.throws(() => (pen.shadowBlur = 3), TypeError);
  assert.throws(() => pen.drawImage(null, 0, 0), TypeError);
});

test("names are text, whatever is in them", () => {
  assert.equal(escape('</svg><script>"&\u0000\ud800'), "&lt;/svg&gt;&lt;script&gt;&quot;&amp;\ufffd\ufffd");
});

test("a sentence takes four lines, of which the last is cut", () => {
  assert.deepEqual(wrap("aa bb cc", 100, width), ["aa bb cc"]);
  assert.deepEqual(wrap("aa bb cc dd ee ff", 50, width), ["aa bb", "cc dd", "ee ff"]);
  assert.deepEqual(wrap("aa bb cc dd ee ff gg hh ii jj", 50, width), ["aa bb", "cc dd", "ee ff", "gg h…"]);
  assert.deepEqual(wrap("", 50, width), []);
});
