import assert from "node:assert/strict";
import { test } from "node:test";

import { ALL, edgeKindsIn, kindsIn, leavesOut, passes, phasesIn, unitsIn, waitsAt } from "#player/graph/filter.js";
import { COLLECTIVES, MESSAGES, PROGRAM, TRACKS, firstIn, labelOf, readGraph, wordsOf } from "#player/graph/model.js";
import { across, along, alongPath, nearest, neighbours, nodeAt, toEnd } from "#player/graph/walk.js";
import { N, makeGraph } from "./graph_sample.js";

/** @import { Filter } from "#player/graph/filter.js" */

const model = readGraph(makeGraph());
const every = new Uint8Array(model.numNodes).fill(1);

/** @param {Partial<Filter>} part */
function passing(part) {
  const passed = passes(model, { ...ALL, ...part });
  return [...passed.keys()].filter((node) => passed[node]);
}

test("lanes hold their nodes in the order of time", () => {
  const lanes = [PROGRAM, COLLECTIVES, MESSAGES].map((track) => [...model.tracks[TRACKS + track].nodes]);
  assert.deepEqual(lanes, [[N.begin1, N.a1, N.wait1, N.b1], [N.call1, N.all], [N.receive]]);
  const program = model.tracks[PROGRAM];
  assert.equal(firstIn(program, 0), 0);
  assert.equal(program.nodes[firstIn(program, 60)], N.wait0);
  assert.equal(firstIn(program, 191), program.nodes.length);
});

test("an arrival waits until the last rank is there", () => {
  assert.equal(model.moving[N.call0], 100);
  assert.equal(model.moving[N.call1], 100);
  assert.ok(waitsAt(model, N.call0));
  assert.ok(!waitsAt(model, N.call1));
  assert.ok(waitsAt(model, N.wait1));
  assert.ok(!waitsAt(model, N.a0));
});

test("the path's time is booked on its nodes", () => {
  const { path } = model.doc;
  assert.equal(model.onPathNs.reduce((sum, ns) => sum + ns, 0), path?.duration_ns);
  assert.equal(model.onPathNs[N.a1], 90);
  assert.equal(model.onPathNs[N.a0], 0);
  assert.deepEqual([...model.pathCollectives], [0]);
  assert.equal(model.messageNs, 10);
});

test("reasons are filled in with ranks and units", () => {
  assert.equal(wordsOf(model, 12), "message from rank 0 to rank 1");
  assert.equal(wordsOf(model, 4), "it completes on rank 0");
  assert.equal(labelOf(model, N.all), "all-reduce of a");
});

test("filters choose what passes", () => {
  assert.equal(passing({}).length, model.numNodes);
  assert.ok(!leavesOut(ALL));
  assert.deepEqual(passing({ critical: true }), [N.begin1, N.a1, N.call1, N.all, N.wait1, N.b1]);
  assert.deepEqual(passing({ waits: true }), [N.call0, N.wait0, N.wait1]);
  assert.deepEqual(passing({ unit: "b" }), [N.b0, N.b1]);
  assert.deepEqual(passing({ kind: "call", rank: 0 }), [N.call0]);
  assert.deepEqual(passing({ phase: "backward" }), []);
  assert.ok(leavesOut({ ...ALL, rank: 0 }));
  assert.ok(!leavesOut({ ...ALL, edges: [] }));
});

test("lists offer only what occurs", () => {
  assert.deepEqual(unitsIn(model), ["a", "b"]);
  assert.deepEqual(kindsIn(model), ["phase", "compute", "wait", "call", "collective", "send", "receive"]);
  assert.deepEqual(phasesIn(model), ["forward"]);
  assert.deepEqual(edgeKindsIn(model), ["program order", "match", "message"]);
});

test("along a lane, to its ends, and over what is filtered out", () => {
  assert.equal(along(model, every, N.a0, 1), N.wait0);
  assert.equal(along(model, every, N.begin0, -1), N.begin0);
  const computing = passes(model, { ...ALL, kind: "compute" });
  assert.equal(along(model, computing, N.a0, 1), N.b0);
  assert.equal(along(model, computing, N.b0, 1), N.b0);
  assert.equal(toEnd(model, every, N.a1, 1), N.b1);
  assert.equal(toEnd(model, computing, N.wait1, -1), N.a1);
});

test("to the lane above or below, nearest in time", () => {
  assert.equal(across(model, every, N.a0, 1, false), N.call0);
  assert.equal(across(model, every, N.call0, 1, false), N.a1);
  assert.equal(across(model, every, N.call0, 1, true), N.send);
  assert.equal(across(model, every, N.a0, -1, true), N.a0);
  assert.equal(nearest(model, every, PROGRAM, 1000), N.b0);
  assert.equal(nearest(model, new Uint8Array(model.numNodes), PROGRAM, 10), -1);
});

test("along the critical path, also from beside it", () => {
  assert.equal(alongPath(model, N.a1, 1), N.call1);
  assert.equal(alongPath(model, N.b1, 1), N.b1);
  assert.equal(alongPath(model, -1, 1), N.begin1);
  assert.equal(alongPath(model, N.wait0, 1), N.call1);
  assert.equal(alongPath(model, N.wait0, -1), N.a1);
});

test("neighbours: what bound an event comes first", () => {
  const { before, after } = neighbours(model, N.all);
  assert.deepEqual(before.map((edge) => model.doc.edges.source[edge]), [N.call1, N.call0]);
  assert.deepEqual(after.map((edge) => model.doc.edges.target[edge]), [N.wait1, N.wait0]);
  assert.deepEqual(neighbours(model, N.begin0).before, []);
});

test("what is under a pointer: within reach, and the shortest of several", () => {
  const calls = TRACKS + COLLECTIVES;
  assert.equal(nodeAt(model, every, calls, 110, 2), N.call1);
  assert.equal(nodeAt(model, every, calls, 129, 2), N.all);
  assert.equal(nodeAt(model, every, calls, 95, 2), -1);
  assert.equal(nodeAt(model, every, calls, 95, 6), N.call1);
});

test("a damaged document is refused in one line that names the field", () => {
  /** @param {(doc: any) => void} damage @param {RegExp} words */
  const refused = (damage, words) => {
    const doc = makeGraph();
    damage(doc);
    assert.throws(() => readGraph(doc), words);
  };
  refused((doc) => (doc.schema = 2), /^DocumentError: schema is 2: expected 1$/);
  refused((doc) => doc.nodes.rank.pop(), /nodes\.rank has 12 entries: expected 13/);
  refused((doc) => (doc.edges.target[3] = 99), /edges\.target\[3\] is 99/);
  refused((doc) => (doc.nodes.start[2] = null), /nodes\.start\[2\] is null: expected a number/);
  refused((doc) => doc.path.pieces.pop(), /path\.pieces is not a list of 5 numbers each/);
  refused((doc) => delete doc.time, /time is missing/);
  refused((doc) => (doc.kinds[0] = "<b>"), /kinds\[0\] is "<b>"/);
});
