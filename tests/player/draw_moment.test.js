// What the views compute from a document: packets, who is in question, bytes, areas, colours.

import assert from "node:assert/strict";
import { test } from "node:test";

import { PHASES, contrast, inkOn, mix, palette, roleColour, shardColour } from "#player/colours.js";
import { density } from "#player/draw/cells.js";
import { activeStates, doing, eachChanged, heldBytes, localTime } from "#player/draw/moment.js";
import { edgesOf, pointOn, progress } from "#player/draw/ring.js";
import { rolesHeld } from "#player/draw/roles.js";
import { legendEntries, stackOf } from "#player/draw/stack.js";
import { scaleOf, sentByPhase } from "#player/draw/traffic.js";

/** @import { Model } from "#player/scene.d.ts" */
/** @import { State, Step } from "#player/types.d.ts" */

/** @param {Partial<Step>} fields @returns {Step} */
const step = (fields) => ({
  kind: "compute", phase: "forward", micro_step: 0, unit: 0, unit_name: "", op: "", purpose: "",
  collective: -1, hop: -1, time_ns: 0, start_ns: 0, end_ns: 100, until: 0, title: 0, what: 0, why: 0,
  source: -1, ranks: [0, 1], packets: [], sent: [], cells: [], freed: [],
  origin: "", target: "", waits: [], waiting: -1, copies: [], copy: null, ...fields,
});

/** @type {State[]} */
const STATES = ["parameters", "gradients", "fp32 master", "momentum"].map((role) => ({
  role,
  name: "",
  tier: "device",
  label: role,
  bytes_per_parameter: role.endsWith("s") ? 2 : 4,
}));

test("messages between the same two ranks are one packet", () => {
  const edges = edgesOf(step({ packets: [0, 1, 3, 10, 5, 20, 0, 1, 3, 7, 2, 30, 1, 0, 2, 1, 0, 9] }));
  assert.deepEqual(edges, [
    { from: 0, to: 1, shard: 3, bytes: 17, start_ns: 2, end_ns: 30 },
    { from: 1, to: 0, shard: 2, bytes: 1, start_ns: 0, end_ns: 9 },
  ]);
  assert.equal(edgesOf(step({ packets: [0, 1, 3, 10, 5, 20, 0, 1, 2, 7, 2, 30] }))[0].shard, -1);
});

test("a packet moves in its own real time within the step", () => {
  const edge = { from: 0, to: 1, shard: 0, bytes: 1, start_ns: 20, end_ns: 60 };
  assert.equal(progress(edge, 0, 100, null), 0.5);
  assert.equal(progress(edge, 0, 100, 0.1), 0);
  assert.equal(progress(edge, 0, 100, 0.4), 0.5);
  assert.equal(progress(edge, 0, 100, 0.7), 1);
  assert.equal(progress({ ...edge, end_ns: 20 }, 0, 100, 1), 1);
  let before = 0;
  for (let t = 0; t <= 1; t += 0.05) {
    const now = progress(edge, 0, 100, t);
    assert.ok(now >= before);
    before = now;
  }
});

test("a packet is at the ends of its way when it begins and when it has come", () => {
  const out = { x: 0, y: 0 };
  const way = /** @type {const} */ ([12, 90, 30, 40, 70, 40, 88, 90]);
  assert.deepEqual({ ...pointOn(way, 0, out) }, { x: 12, y: 90 });
  assert.deepEqual({ ...pointOn(way, 1, out) }, { x: 88, y: 90 });
  assert.deepEqual({ ...pointOn(way, 0.5, out) }, { x: 50, y: 52.5 });
});

test("a gather is about parameters, a reduction about gradients, an update about all", () => {
  /** @param {Partial<Step>} fields */
  const roles = (fields) => activeStates(step(fields), STATES).map((i) => STATES[i].role);
  assert.deepEqual(roles({ kind: "transfer", op: "all-gather", purpose: "gather parameters", phase: "backward" }), ["parameters"]);
  assert.deepEqual(roles({ kind: "transfer", op: "reduce-scatter", purpose: "reduce gradients" }), ["gradients"]);
  assert.deepEqual(roles({ phase: "forward" }), ["parameters"]);
  assert.deepEqual(roles({ phase: "backward" }), ["gradients"]);
  assert.deepEqual(roles({ phase: "update" }), STATES.map((state) => state.role));
  assert.deepEqual(roles({ kind: "mark" }), []);
});

test("a card says what its rank does", () => {
  assert.equal(doing(step({}), 0), "computes");
  assert.equal(doing(step({ phase: "update" }), 1), "updates");
  const hop = step({ kind: "transfer", waits: [1, 10, 30] });
  assert.deepEqual([doing(hop, 1), doing(hop, 0)], ["waits", ""]);
  assert.equal(doing(step({ waits: [1, 10, 30] }), 1), "computes");
  assert.equal(doing(step({ kind: "transfer" }), 0), "");
});

test("bytes that are absent or on their way are not held", () => {
  const units = [{ name: "u", elements: 100, padded_elements: 100, trainable: true, module: "", stage: "", hue: 0 }];
  const model = /** @type {Model} */ (/** @type {unknown} */ ({
    numShards: 4, numStates: 2, numUnits: 1, doc: { states: STATES.slice(0, 2), units },
  }));
  assert.equal(heldBytes(model, Uint8Array.from([1, 2, 3, 0, 4, 5, 6, 7]), 0), 2 * 100 * 0.5 + 2 * 100);
});

test("only groups that changed are drawn again", () => {
  const drawn = Uint8Array.from([1, 1, 0, 0, 2, 2]);
  const cells = Uint8Array.from([1, 1, 0, 3, 2, 0]);
  /** @type {number[]} */
  const groups = [];
  eachChanged(cells, drawn, 2, (group) => groups.push(group));
  assert.deepEqual(groups, [1, 2]);
  assert.deepEqual(drawn, cells);
  eachChanged(cells, drawn, 2, () => assert.fail("nothing changed"));
});

test("each rank is at its own time, and moves to its next", () => {
  const model = /** @type {Model} */ (/** @type {unknown} */ ({
    numSteps: 2, doc: { local_ns: [[0, 10], [4, 20]] },
  }));
  assert.equal(localTime(model, 1, 0, null), 4);
  assert.equal(localTime(model, 1, 0, 0.5), 12);
  assert.equal(localTime(model, 0, 1, 0.5), 10);
});

test("traffic by phase adds up to what was sent", () => {
  const model = /** @type {Model} */ (/** @type {unknown} */ ({
    numRanks: 1,
    phases: [
      { phase: "forward", first: 0, last: 1 },
      { phase: "backward", first: 2, last: 2 },
      { phase: "forward", first: 3, last: 3 },
    ],
    phaseOf: Int32Array.from([0, 0, 1, 2]),
    sentBefore: Float64Array.from([0, 5, 8, 20, 21]),
  }));
  const out = sentByPhase(model, 3, Float64Array.from([20.5]), 0, new Float64Array(PHASES.length));
  assert.deepEqual([...out], [8.5, 12, 0, 0]);
});

test("the traffic's scale has room for three Psi, and for more where more was sent", () => {
  const traffic = { law: "2Ψ(N−1)/N", law_bytes: 150, psi_bytes: 100, total: [150, null], links: [] };
  assert.equal(scaleOf(traffic), 300);
  assert.equal(scaleOf({ ...traffic, total: [400, null] }), 400);
  assert.equal(scaleOf({ ...traffic, law: "", law_bytes: null }), 150);
});

test("memory keeps the largest sample of a pixel, and its areas add up", () => {
  const memory = {
    times_ns: [0, 1, 2, 50, 99], bytes: [[1, 5, 2, 3, 3], [1, 1, 1, 0, 4]],
    peak_ns: 1, peak_bytes: 6, peak_step: 0, cause: 0,
  };
  const { times, tops } = stackOf(memory, 100, 10);
  assert.deepEqual(times, [1, 50, 99]);
  assert.deepEqual(tops.map((top) => [...top]), [[5, 3, 3], [6, 3, 7]]);
});

test("a brief legend has the optimizer as one", () => {
  const roles = ["fp32 master", "momentum", "variance", "parameters", "gathered parameters"];
  assert.deepEqual(legendEntries(roles, false).map((entry) => entry.label), [
    "master", "momentum", "variance", "parameters", "gathered",
  ]);
  assert.deepEqual(legendEntries(roles, true).map((entry) => entry.label), [
    "optimizer", "parameters", "gathered",
  ]);
});

test("text has contrast on every ground it stands on, in both themes", () => {
  for (const theme of /** @type {const} */ (["light", "dark"])) {
    const colours = palette(theme);
    for (const ground of [colours.card, colours.inset, colours.track]) {
      assert.ok(contrast(colours.text, ground) >= 7, `text on ${ground}`);
      assert.ok(contrast(colours.muted, ground) >= 4.5, `muted on ${ground}`);
    }
    const fills = [...colours.shards, ...Object.values(colours.phases), colours.unknown, colours.select];
    for (const fill of fills) {
      assert.ok(contrast(inkOn(fill), fill) >= 4.5, `ink on ${fill}`);
    }
    for (const edge of colours.edges) {
      assert.ok(contrast(edge, colours.inset) >= 3, `${edge} as a line in ${theme}`);
    }
  }
});

test("eight shards have eight hues, and then they begin again", () => {
  const colours = palette("light");
  assert.equal(new Set(Array.from({ length: 8 }, (_, i) => shardColour(colours, i))).size, 8);
  assert.equal(shardColour(colours, 9), shardColour(colours, 1));
  assert.equal(shardColour(colours, -1), colours.unknown);
});

test("roles of memory have colours of their own; gathered parameters are not parameters", () => {
  const roles = [
    "parameters", "gradients", "fp32 master", "momentum", "variance", "gathered parameters",
    "communication buffers", "activations", "other",
  ];
  for (const theme of /** @type {const} */ (["light", "dark"])) {
    assert.equal(new Set(roles.map((role) => roleColour(theme, role))).size, roles.length);
  }
});

test("a colour means one thing: shards, phases, roles and places are told apart at a glance", () => {
  const roles = [
    "parameters", "gradients", "fp32 master", "momentum", "variance", "gathered parameters",
    "secondary parameters", "activation checkpoints", "communication buffers", "activations", "other",
  ];
  for (const theme of /** @type {const} */ (["light", "dark"])) {
    const colours = palette(theme);
    const phases = PHASES.map((phase) => colours.phases[phase]);
    for (const role of [...roles.map((one) => roleColour(theme, one)), ...colours.copies]) {
      assert.ok(nearest(role, colours.shards) >= 0.08, `${role} is like a shard in ${theme}`);
      assert.ok(nearest(role, phases) >= 0.035, `${role} is like a phase in ${theme}`);
    }
    for (const phase of phases) {
      assert.ok(nearest(phase, colours.shards) >= 0.08, `${phase} is like a shard in ${theme}`);
    }
    for (const phase of Object.values(colours.phases)) {
      for (const ground of [colours.card, colours.inset]) {
        assert.ok(contrast(phase, ground) >= 3, `${phase} on ${ground} in ${theme}`);
      }
    }
    assert.ok(distance(colours.cursor, colours.path) >= 0.2, theme);
  }
});

/** @param {string} colour @param {readonly string[]} others */
const nearest = (colour, others) => Math.min(...others.map((other) => distance(colour, other)));

/** How far two colours are from each other (Ottosson 2020, OKLab). @param {string} one @param {string} other */
function distance(one, other) {
  const [a, b] = [one, other].map(okLab);
  return Math.hypot(...a.map((part, i) => part - b[i]));
}

/** @param {string} colour */
function okLab(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

test("colours mix, and contrast is that of WCAG", () => {
  assert.equal(mix("#000000", "#ffffff", 0.5), "#808080");
  assert.equal(Math.round(contrast("#000000", "#ffffff")), 21);
  assert.equal(density(0, 4), 0);
  assert.equal(density(4, 4), 1);
  assert.ok(density(1, 4) < density(2, 4));
});

test("where units are not known a rank holds the bytes by role that its memory had then", () => {
  const own = { times_ns: [0, 100, 200], bytes: [[8, 8, 0], [0, 4, 4]], peak_ns: 100, peak_bytes: 12 };
  const memory = { roles: ["parameters", "gradients"], ranks: [{ ...own, peak_step: 0, cause: -1 }, null] };
  const doc = { memory, local_ns: [[50, 150, 250]] };
  const at = (/** @type {number} */ position, rank = 0) =>
    rolesHeld(/** @type {any} */ ({ model: { doc, numSteps: 3 }, document: doc, position }), rank);
  assert.deepEqual(at(0), [{ role: "parameters", bytes: 8 }]);
  assert.deepEqual(at(1), [{ role: "parameters", bytes: 8 }, { role: "gradients", bytes: 4 }]);
  assert.deepEqual(at(2), [{ role: "gradients", bytes: 4 }]);
  assert.equal(at(1, 1), null);
});
