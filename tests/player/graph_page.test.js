import assert from "node:assert/strict";
import { test } from "node:test";

import { palette } from "#player/colours.js";
import { TimeWindow } from "#player/draw/lanes.js";
import { fontsFor } from "#player/draw/text.js";
import { formatGraphPlace, parseGraphPlace, replayAddress } from "#player/graph/address.js";
import { reasonOf, slackOf } from "#player/graph/details.js";
import { edgesInSight } from "#player/graph/edges.js";
import { accents } from "#player/graph/accents.js";
import { drawLanes } from "#player/graph/bars.js";
import { ALL, passes } from "#player/graph/filter.js";
import { KEYS, actionOf } from "#player/graph/keys.js";
import { edgeEnds, isShown, laneAt, layoutGraph, trackBox } from "#player/graph/layout.js";
import { COLLECTIVES, MESSAGES, PROGRAM, readGraph } from "#player/graph/model.js";
import { sentences } from "#player/graph/page.js";
import { N, makeGraph } from "./graph_sample.js";

const model = readGraph(makeGraph());
globalThis.Element ??= /** @type {any} */ (class {});

/** @param {object} [given] */
const lanesOf = (given) =>
  layoutGraph({
    width: 1000, height: 500, numRanks: 2, only: -1, nameWidth: 50, fonts: fontsFor(false), messageNs: 10, span: 200,
    ...given,
  });

test("a place is read as it is written", () => {
  const usual = parseGraphPlace("", model, null);
  assert.equal(formatGraphPlace(usual, model), "");
  assert.deepEqual([usual.from, usual.to, usual.selected], [0, 200, -1]);
  /** @type {import("#player/graph/address.js").GraphPlace} */
  const place = {
    selected: N.b1,
    filter: {
      kind: "wait", phase: "forward", unit: "a", rank: 1, critical: true, waits: true,
      edges: ["program order", "message"],
    },
    from: 10,
    to: 90,
    table: "exposed",
    theme: "dark",
    present: true,
  };
  assert.deepEqual(parseGraphPlace(formatGraphPlace(place, model), model, null), place);
  const none = { ...usual, filter: { ...usual.filter, edges: [] } };
  assert.deepEqual(parseGraphPlace(formatGraphPlace(none, model), model, null), none);
});

test("what is no place is left out", () => {
  const hostile = "#event=99&rank=7&unit=%3Cimg%3E&kind=x&from=-5&to=1e99&edges=x&table=<b>&theme=x&%E0%A4%A=1";
  const usual = parseGraphPlace("", model, "light");
  const found = parseGraphPlace(hostile, model, "light");
  assert.deepEqual({ ...found, filter: { ...found.filter, edges: ["match"] } }, usual);
  assert.equal(parseGraphPlace("#from=50&to=9999", model, null).to, 200);
});

test("where a step is replayed", () => {
  const plain = { theme: null, present: false };
  assert.equal(replayAddress(model, N.a0, plain), "/replay?trace=sample&iteration=2#at=2");
  assert.equal(
    replayAddress(model, N.b1, { theme: "dark", present: true }),
    "/replay?trace=sample&iteration=2#at=11&rank=1&mode=present&theme=dark",
  );
  const hostile = { ...model, doc: { ...model.doc, name: "a&b=<c>#", iteration: -1 } };
  assert.equal(replayAddress(hostile, N.a0, plain), "/replay?trace=a%26b%3D%3Cc%3E%23#at=2");
  const unknown = { ...model.doc.nodes, step: model.doc.nodes.step.map(() => -1) };
  assert.equal(replayAddress({ ...model, doc: { ...model.doc, nodes: unknown } }, N.a0, plain), null);
});

test("what bound an event, in a sentence", () => {
  assert.equal(
    reasonOf(model, N.wait0),
    "Its start depends on all-reduce of a: it completes on rank 0, at 130 ns. It starts 5 ns after that.",
  );
  assert.equal(reasonOf(model, N.begin0), "It is the first event of this iteration.");
  assert.equal(
    reasonOf(model, N.call0),
    "Its start depends on forward of a: rank 0 continues, at 55 ns. It starts 5 ns after that. " +
      "It arrived 40 ns before rank 1, the last one.",
  );
  assert.match(reasonOf(model, N.receive), /^Its start depends on send shard 0 to rank 1 on rank 0: message/);
  assert.equal(slackOf(model, N.a0), "40 ns");
  assert.equal(slackOf(model, N.a1), "0: critical");
});

test("the title says who waited for whom", () => {
  assert.deepEqual(sentences(["Iteration 1 took 2 ms", "it computed", "rank 0 waited"]), {
    title: "Rank 0 waited.",
    what: "Iteration 1 took 2 ms; it computed.",
  });
  assert.deepEqual(sentences(["A deadlock"]), { title: "A deadlock.", what: "" });
});

test("lanes fill the height, and one rank alone has all of it", () => {
  const both = lanesOf();
  assert.equal(both.count, 2);
  assert.ok(both.rowHeight * 2 <= both.axisY);
  const one = lanesOf({ only: 1 });
  assert.deepEqual([one.first, one.count], [1, 1]);
  assert.ok(one.rowHeight > both.rowHeight);
  assert.ok(!isShown(one, 0));
  const many = lanesOf({ numRanks: 64, height: 330 });
  assert.equal(many.count, 64);
  assert.ok(many.rowHeight * 64 <= many.axisY + 1e-9);
  assert.ok(!many.messages);
});

test("messages have a lane where they are wide enough", () => {
  assert.ok(lanesOf().messages);
  assert.ok(!lanesOf({ span: 1000 }).messages);
  assert.ok(!lanesOf({ messageNs: 0 }).messages);
});

test("a height is in the lane that is drawn there", () => {
  for (const lanes of [lanesOf(), lanesOf({ span: 1000 }), lanesOf({ numRanks: 64 })]) {
    for (const rank of [0, lanes.count - 1]) {
      for (const track of [PROGRAM, COLLECTIVES, ...(lanes.messages ? [MESSAGES] : [])]) {
        const { y, h } = trackBox(lanes, rank, track);
        assert.deepEqual(laneAt(lanes, y + h / 2), { rank, track });
      }
    }
  }
});

test("edges leave a collective on the rank that goes on", () => {
  const lanes = lanesOf();
  const shown = new TimeWindow(200);
  const ends = edgeEnds(model, lanes, shown, 4); // the collective of rank 1 to the wait of rank 0
  assert.deepEqual([ends.fromRank, ends.toRank], [0, 0]);
  assert.equal(ends.x1, shown.x(130, lanes));
  assert.equal(ends.x2, shown.x(135, lanes));
  assert.ok(ends.y1 > ends.y2);
});

test("only edges that are wanted and in sight are drawn", () => {
  const shown = new TimeWindow(200);
  /** @param {object} part @param {object} [given] */
  const count = (part, given) => {
    const filter = { ...ALL, ...part };
    const picture = /** @type {any} */ ({ model, lanes: lanesOf(given), shown, passed: passes(model, filter) });
    return edgesInSight(picture, filter).length;
  };
  assert.equal(count({}), 4);
  assert.equal(count({ edges: ["message"] }), 1);
  assert.equal(count({ edges: ["message"] }, { messageNs: 0 }), 0);
  assert.equal(count({ edges: [] }), 0);
  assert.equal(count({ critical: true }), 2);
  shown.show(150, 200);
  assert.equal(count({ edges: ["program order", "match", "message"] }), 0);
});

test("keys act, but not those that an element or the browser needs", () => {
  /** @param {string} key @param {object} [more] */
  const press = (key, more) =>
    actionOf(/** @type {any} */ ({ key, shiftKey: false, ctrlKey: false, altKey: false, metaKey: false, target: null, ...more }));
  assert.equal(press("ArrowRight"), "next");
  assert.equal(press("ArrowRight", { shiftKey: true }), "panRight");
  assert.equal(press("+", { shiftKey: true }), "zoomIn");
  assert.equal(press("?", { shiftKey: true }), "help");
  assert.equal(press("c", { ctrlKey: true }), null);
  assert.equal(press("x"), null);
  const keys = KEYS.flatMap((one) => one.keys);
  assert.equal(new Set(keys).size, keys.length);
});

/** The names that are written on bars of computing. @param {ReturnType<typeof makeGraph>} doc */
function namesOn(doc) {
  const own = readGraph(doc);
  /** @type {string[]} */
  const written = [];
  const nothing = () => {};
  const ctx = {
    beginPath: nothing, roundRect: nothing, fill: nothing, fillRect: nothing,
    fillText: (/** @type {string} */ text) => written.push(text),
  };
  drawLanes(/** @type {any} */ ({ ctx, scale: 1 }), {
    model: own, lanes: lanesOf({ height: 700 }), shown: new TimeWindow(200), filtered: false,
    passed: Uint8Array.from(own.kinds, (kind) => Number(kind === "compute")),
    colours: palette("light"), accents: accents("light"), fonts: fontsFor(false), measure: (text) => 8 * text.length,
  });
  return written;
}

test("a name is written where no other bar is drawn over it, and nowhere else", () => {
  assert.deepEqual(namesOn(makeGraph()), ["a", "b", "a", "b"]);
  const late = makeGraph();
  late.nodes.start[N.b0] = 11; // b begins one ns after a: of its name nothing would be left but a stroke
  assert.deepEqual(namesOn(late).toSorted(), ["a", "b", "b"]);
});
