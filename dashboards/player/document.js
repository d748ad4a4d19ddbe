// Checks a replay document before anything is drawn: bad data gives one clear line, never half a
// page. What the fields mean stands in types.d.ts.

/** @import { ReplayDocument } from "#player/types.d.ts" */

/** A check looks at a value and throws a DocumentError that names it by its path.
 *  @typedef {(value: unknown, path: string) => void} Check */

export const NUMBERS_PER_PACKET = 6;
export const NUMBERS_PER_BAR = 7;
export const NUMBERS_PER_PATH_SPAN = 4;
export const MAX_CELL_CODE = 7;

/** The document is not what the player reads; the message is one line for its reader. */
export class DocumentError extends Error {
  name = "DocumentError";
}

/**
 * Check a parsed document.
 * @param {unknown} value
 * @returns {ReplayDocument}
 * @throws {DocumentError} naming the first field that is wrong, and what was expected
 */
export function checkDocument(value) {
  record({ schema: oneOf([1]) })(value, "");
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
  list(stepCheck(num, doc.num_shards))(doc.steps, "steps");
  list(list(finite, num.steps), num.ranks)(doc.local_ns, "local_ns");
  list(collectiveCheck(num))(doc.collectives, "collectives");
  for (let k = 1; k < num.steps; k += 1) {
    if (doc.steps[k].time_ns < doc.steps[k - 1].time_ns) {
      throw new DocumentError(`steps[${k}].time_ns is before that of the step in front of it`);
    }
  }
  record({
    duration_ns: atLeast(0),
    bars: rows([index(num.ranks), index(2), index(3), index(4), finite, finite, whole(-1, num.steps)]),
    path: rows([index(num.ranks), index(4), finite, finite]),
  })(doc.timeline, "timeline");
  list(nullable(atLeast(0)), num.ranks)(doc.traffic.total, "traffic.total");
  if (doc.memory !== null) {
    const { roles, ranks } = doc.memory;
    list(nullable(memoryCheck(roles.length, num)), num.ranks)(ranks, "memory.ranks");
  }
  if (doc.broken !== null) {
    index(num.steps)(doc.broken.step, "broken.step");
  }
  return doc;
}

/** @type {Check} */
const text = (value, path) => expect(typeof value === "string", value, path, "a text");
/** @type {Check} */
const flag = (value, path) => expect(typeof value === "boolean", value, path, "true or false");
/** @type {Check} */
const finite = (value, path) => expect(Number.isFinite(value), value, path, "a number");

/** @param {number} least @returns {Check} */
const atLeast = (least) => (value, path) =>
  expect(Number.isFinite(value) && Number(value) >= least, value, path, `a number from ${least}`);

/** A whole number from `least`, below `end`.
 *  @param {number} least @param {number} [end] @returns {Check} */
const whole = (least, end = Number.MAX_SAFE_INTEGER) => (value, path) =>
  expect(
    Number.isSafeInteger(value) && Number(value) >= least && Number(value) < end,
    value,
    path,
    end === Number.MAX_SAFE_INTEGER
      ? `a whole number from ${least}`
      : `a whole number from ${least} to ${end - 1}`,
  );

/** A position in a list. @param {number} length @returns {Check} */
const index = (length) => whole(0, length);

/** A position in a list, or -1. @param {number} length @returns {Check} */
const indexOrNone = (length) => whole(-1, length);

/** @param {readonly unknown[]} values @returns {Check} */
const oneOf = (values) => (value, path) =>
  expect(values.includes(value), value, path, values.map((one) => JSON.stringify(one)).join(" or "));

/** @param {Check} check @returns {Check} */
const nullable = (check) => (value, path) => (value === null ? undefined : check(value, path));

/** @param {Check} check @param {number} [length] @returns {Check} */
const list = (check, length) => (value, path) => {
  if (!Array.isArray(value)) {
    throw wrong(value, path, "a list");
  }
  if (length !== undefined && value.length !== length) {
    throw new DocumentError(`${path} has ${value.length} entries: expected ${length}`);
  }
  for (let i = 0; i < value.length; i += 1) {
    check(value[i], `${path}[${i}]`);
  }
};

/** A flat list of rows: one check for each number of a row. @param {Check[]} checks @returns {Check} */
const rows = (checks) => (value, path) => {
  if (!Array.isArray(value) || value.length % checks.length !== 0) {
    throw new DocumentError(`${path} is not a list of ${checks.length} numbers each`);
  }
  for (let i = 0; i < value.length; i += 1) {
    checks[i % checks.length](value[i], `${path}[${i}]`);
  }
};

/** @param {Record<string, Check>} fields @returns {Check} */
const record = (fields) => {
  const entries = Object.entries(fields);
  return (value, path) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw wrong(value, path || "the document", "an object");
    }
    const object = /** @type {Record<string, unknown>} */ (value);
    for (const [name, check] of entries) {
      check(object[name], path ? `${path}.${name}` : name);
    }
  };
};

const phase = oneOf(["forward", "backward", "update", "setup", "outside"]);

/** What can be checked without knowing how long the lists are. */
const outline = record({
  name: text,
  run: record({
    model: text,
    stage: whole(-1, 4),
    stage_name: text,
    dtype: text,
    num_ranks: whole(1),
    algorithm: text,
    backend: text,
    device: text,
    num_parameters: whole(0),
    element_bytes: whole(0),
    accumulate: whole(0),
    iteration: whole(0),
    iterations: list(whole(0)),
    loss: nullable(finite),
  }),
  ranks: list(whole(0)),
  units: list(
    record({ name: text, elements: whole(0), padded_elements: whole(0), trainable: flag }),
  ),
  states: list(record({ role: text, label: text, bytes_per_parameter: atLeast(0) })),
  texts: list(text),
  steps: list(record({})),
  collectives: list(record({})),
  cells: text,
  num_shards: whole(1),
  timeline: record({}),
  traffic: record({
    law: text,
    law_bytes: nullable(atLeast(0)),
    psi_bytes: atLeast(0),
    total: list(nullable(atLeast(0))),
  }),
  memory: nullable(
    record({ roles: list(text), ranks: list(() => {}), law: text, law_bytes: nullable(atLeast(0)) }),
  ),
  verdict: record({ headline: text, holds: nullable(flag) }),
  notes: list(text),
  broken: nullable(record({ step: whole(0), reason: text })),
});

/** @typedef {{ranks: number, units: number, texts: number, steps: number, collectives: number,
 *             cells: number}} Lengths */

/** @param {Lengths} num @param {number} numShards @returns {Check} */
const stepCheck = (num, numShards) =>
  record({
    kind: oneOf(["mark", "compute", "collective", "transfer", "wait"]),
    phase,
    micro_step: whole(-1),
    unit: indexOrNone(num.units),
    unit_name: text,
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
    sent: (value, path) =>
      list(atLeast(0), Array.isArray(value) && value.length === 0 ? 0 : num.ranks)(value, path),
    cells: rows([index(num.cells), whole(0, MAX_CELL_CODE + 1)]),
  });

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
    payload_bytes: atLeast(0),
    elements: atLeast(0),
    element_bytes: atLeast(0),
    formula: index(num.texts),
    filled: index(num.texts),
    theory: byRank,
    trace: byRank,
    wire: byRank,
    framing: byRank,
  });
};

/** @param {number} numRoles @param {Lengths} num @returns {Check} */
const memoryCheck = (numRoles, num) => (value, path) => {
  record({
    times_ns: list(finite),
    peak_ns: finite,
    peak_bytes: atLeast(0),
    peak_step: index(num.steps),
    cause: index(num.texts),
  })(value, path);
  const memory = /** @type {{times_ns: number[], bytes: unknown}} */ (value);
  list(list(finite, memory.times_ns.length), numRoles)(memory.bytes, `${path}.bytes`);
};

/** @param {boolean} holds @param {unknown} value @param {string} path @param {string} expected */
function expect(holds, value, path, expected) {
  if (!holds) {
    throw wrong(value, path, expected);
  }
}

/** @param {unknown} value @param {string} path @param {string} expected */
function wrong(value, path, expected) {
  if (value === undefined) {
    return new DocumentError(`${path} is missing: expected ${expected}`);
  }
  const shown = JSON.stringify(value);
  const short = shown.length > 40 ? `${shown.slice(0, 40)}…` : shown;
  return new DocumentError(`${path} is ${short}: expected ${expected}`);
}
