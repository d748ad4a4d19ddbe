// Checks a replay document before anything is drawn: bad data gives one clear line, never half a
// page. types.d.ts has the meaning of the fields.

import {
  DocumentError,
  at,
  atLeast,
  count,
  finite,
  flag,
  index,
  indexOrNone,
  list,
  nullable,
  oneOf,
  record,
  rows,
  text,
  whole,
} from "#player/checks.js";
import { OUTCOMES } from "#player/outcome.js";

/** @import { Check } from "#player/checks.js" */
/** @import { ReplayDocument } from "#player/types.d.ts" */

export const NUMBERS_PER_PACKET = 6;
export const NUMBERS_PER_COPY = 4;
export const NUMBERS_PER_WAIT = 3;
export const NUMBERS_PER_BAR = 7;
export const NUMBERS_PER_PATH_SPAN = 4;
export const MAX_CELL_CODE = 7;

/**
 * Check a parsed document.
 * @param {unknown} value
 * @returns {ReplayDocument}
 * @throws {DocumentError} naming the first invalid field, and the expected value
 */
export function checkDocument(value) {
  record({ schema: oneOf([2]) })(value, "");
  outline(value, "");
  const doc = /** @type {ReplayDocument} */ (value);
  const num = {
    ranks: doc.ranks.length,
    units: doc.units.length,
    states: doc.states.length,
    texts: doc.texts.length,
    steps: doc.steps.length,
    collectives: doc.collectives.length,
    cells: doc.ranks.length * doc.states.length * doc.units.length * doc.num_shards,
  };
  if (num.steps === 0) {
    throw new DocumentError("the iteration has no steps to show: choose another iteration");
  }
  if (!new RegExp(`^[0-${MAX_CELL_CODE}]{${num.cells}}$`).test(doc.cells)) {
    throw new DocumentError(
      `cells is not ${num.cells} digits from 0 to ${MAX_CELL_CODE} ` +
        `(${num.ranks} ranks x ${num.states} states x ${num.units} units x ${doc.num_shards} shards)`,
    );
  }
  list(matrixCheck(num))(doc.matrices, "matrices");
  list(stepCheck(num, doc.num_shards))(doc.steps, "steps");
  list(beatCheck(num))(doc.beats, "beats");
  checkPartition(doc);
  list(record({ about: oneOf(ABOUTS), step: index(num.steps), title: text, text }))(doc.tour, "tour");
  list(list(finite, num.steps), num.ranks)(doc.local_ns, "local_ns");
  list(collectiveCheck(num))(doc.collectives, "collectives");
  for (let k = 1; k < num.steps; k += 1) {
    if (doc.steps[k].time_ns < doc.steps[k - 1].time_ns) {
      throw new DocumentError(`steps[${k}].time_ns is before that of the step in front of it`);
    }
  }
  record({
    duration_ns: atLeast(0),
    bars: rows([index(num.ranks), index(4), index(4), index(4), finite, finite, whole(-1, num.steps)]),
    path: rows([index(num.ranks), index(5), finite, finite]),
  })(doc.timeline, "timeline");
  list(nullable(atLeast(0)), num.ranks)(doc.traffic.total, "traffic.total");
  list(record({ link: oneOf(LINKS), law: text, law_bytes: list(nullable(atLeast(0)), num.ranks) }))(
    doc.traffic.links,
    "traffic.links",
  );
  if (doc.memory !== null) {
    const { roles, tiers, ranks } = doc.memory;
    list(oneOf(TIERS), roles.length)(tiers, "memory.tiers");
    list(nullable(memoryCheck(roles.length, num)), num.ranks)(ranks, "memory.ranks");
  }
  if (doc.broken !== null) {
    index(num.steps)(doc.broken.step, "broken.step");
  }
  return doc;
}

/** @type {readonly import("#player/types.d.ts").Tier[]} */
export const TIERS = ["device", "host", "disk"];
/** @type {readonly import("#player/types.d.ts").Sign[]} */
export const SIGNS = [
  "gather", "compute", "free", "reduce", "update", "copy", "send", "combine", "agree", "exchange", "begin", "end",
  "stand",
];
/** @type {readonly import("#player/types.d.ts").About[]} */
const ABOUTS = ["run", "free", "turn", "again", "beat", "reduced", "wait", "peak", "sum"];
/** @type {readonly import("#player/types.d.ts").Link[]} */
export const LINKS = ["within a node", "between nodes", "bus", "storage"];

const phase = oneOf(["forward", "backward", "update", "setup", "outside"]);

/** Checks that do not need the lengths of the lists. */
const outline = record({
  name: text,
  run: record({
    model: text,
    stage: whole(-1, 4),
    stage_name: text,
    dtype: text,
    num_ranks: whole(1),
    ranks_per_node: whole(1),
    algorithm: text,
    backend: text,
    device: text,
    num_parameters: count,
    element_bytes: whole(0),
    accumulate: whole(0),
    iteration: whole(0),
    iterations: list(whole(0)),
    loss: nullable(finite),
  }),
  ranks: list(whole(0)),
  stands_for: list(whole(1)),
  units: list(
    record({ name: text, elements: count, padded_elements: count, trainable: flag, module: text, stage: text, hue: whole(0) }),
  ),
  states: list(record({ role: text, name: text, tier: oneOf(TIERS), label: text, bytes_per_parameter: atLeast(0) })),
  matrices: list(record({})),
  texts: list(text),
  steps: list(record({})),
  beats: list(record({})),
  collectives: list(record({})),
  cells: text,
  num_shards: whole(1),
  timeline: record({}),
  traffic: record({
    law: text,
    law_bytes: nullable(atLeast(0)),
    psi_bytes: atLeast(0),
    total: list(nullable(atLeast(0))),
    links: list(record({})),
  }),
  memory: nullable(
    record({ roles: list(text), tiers: list(text), ranks: list(() => {}), law: text, law_bytes: nullable(atLeast(0)), laws: list(record({ law: text, law_bytes: atLeast(0) })) }),
  ),
  verdict: record({ headline: text, outcome: nullable(oneOf(OUTCOMES)) }),
  tour: list(record({})),
  notes: list(text),
  broken: nullable(record({ step: whole(0), reason: text })),
});

/** @typedef {{ranks: number, units: number, texts: number, steps: number, collectives: number,
 *             cells: number}} Lengths */

/** @param {Lengths} num @returns {Check} */
const matrixCheck = (num) =>
  record({
    unit_name: text,
    module: text,
    style: oneOf(["column", "row"]),
    shape: list(whole(0)),
    num_parts: whole(1),
    parts: list(whole(-1), num.ranks),
  });

/** @param {Lengths} num @param {number} numShards @returns {Check} */
const stepCheck = (num, numShards) => {
  const sentByRank = list(atLeast(0), num.ranks);
  return record({
    kind: oneOf(["mark", "compute", "collective", "transfer", "copy"]),
    phase,
    micro_step: whole(-1),
    unit: indexOrNone(num.units),
    unit_name: text,
    origin: oneOf(["", ...TIERS]),
    target: oneOf(["", ...TIERS]),
    op: text,
    purpose: text,
    collective: indexOrNone(num.collectives),
    hop: whole(-1),
    time_ns: finite,
    start_ns: finite,
    end_ns: finite,
    until: index(num.steps),
    title: index(num.texts),
    what: index(num.texts),
    why: index(num.texts),
    waiting: indexOrNone(num.texts),
    source: indexOrNone(num.texts),
    ranks: list(index(num.ranks)),
    packets: rows([
      indexOrNone(num.ranks),
      indexOrNone(num.ranks),
      indexOrNone(numShards),
      atLeast(0),
      finite,
      finite,
    ]),
    waits: rows([index(num.ranks), finite, finite]),
    copies: rows([index(num.ranks), atLeast(0), finite, finite]),
    copy: nullable(copyCheck(num)),
    sent: (value, path, key) =>
      (Array.isArray(value) && value.length === 0) || sentByRank(value, path, key),
    cells: rows([index(num.cells), whole(0, MAX_CELL_CODE + 1)]),
    freed: list(index(num.units)),
  });
};

/** @param {Lengths} num @returns {Check} */
const beatCheck = (num) =>
  record({
    first: index(num.steps),
    last: index(num.steps),
    main: index(num.steps),
    signs: list(oneOf(SIGNS)),
    label: text,
    units: list(index(num.units)),
    phase,
    micro_step: whole(-1),
    freed: list(text),
    title: index(num.texts),
    what: index(num.texts),
    meanwhile: indexOrNone(num.texts),
    waiting: indexOrNone(num.texts),
    within: text,
    is_prefetch: flag,
  });

/** Each step belongs to one beat, and beats follow each other. @param {ReplayDocument} doc */
function checkPartition({ beats, steps }) {
  let next = 0;
  for (const [k, { first, last, main, signs }] of beats.entries()) {
    if (first !== next || last < first) {
      throw new DocumentError(`beats[${k}] is of steps ${first} to ${last}: expected it to begin with ${next}`);
    }
    if (main < first || main > last) {
      throw new DocumentError(`beats[${k}].main is ${main}: expected one of its steps, ${first} to ${last}`);
    }
    if (signs.length === 0) {
      throw new DocumentError(`beats[${k}].signs is empty: expected at least one`);
    }
    next = last + 1;
  }
  if (next !== steps.length) {
    throw new DocumentError(`the beats end with step ${next - 1}: expected ${steps.length - 1}`);
  }
}

/** @param {Lengths} num @returns {Check} */
const copyCheck = (num) => {
  const byRank = list(nullable(atLeast(0)), num.ranks);
  return record({
    formula: indexOrNone(num.texts),
    filled: indexOrNone(num.texts),
    theory: byRank,
    trace: byRank,
    counted: byRank,
    framing: byRank,
  });
};

/** @param {Lengths} num @returns {Check} */
const collectiveCheck = (num) => {
  const byRank = list(nullable(atLeast(0)), num.ranks);
  return record({
    unit: indexOrNone(num.units),
    unit_name: text,
    op: text,
    purpose: text,
    phase,
    algorithm: text,
    first: index(num.steps),
    last: index(num.steps),
    num_hops: whole(0),
    shards_each: whole(1),
    payload_bytes: atLeast(0),
    elements: atLeast(0),
    element_bytes: atLeast(0),
    dtype: text,
    bits: whole(0),
    formula: indexOrNone(num.texts),
    filled: indexOrNone(num.texts),
    theory: byRank,
    trace: byRank,
    wire: byRank,
    excess: list(nullable(finite), num.ranks),
    is_more: flag,
    framing: byRank,
  });
};

/** @param {number} numRoles @param {Lengths} num @returns {Check} */
const memoryCheck = (numRoles, num) => (value, path, key) => {
  record({
    times_ns: list(finite),
    peak_ns: finite,
    peak_bytes: atLeast(0),
    peak_step: index(num.steps),
    cause: index(num.texts),
  })(value, path, key);
  const memory = /** @type {{times_ns: number[], bytes: unknown}} */ (value);
  list(list(finite, memory.times_ns.length), numRoles)(memory.bytes, at(path, key), "bytes");
};
