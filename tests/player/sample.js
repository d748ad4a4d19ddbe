// A small document, made by hand: 3 ranks, 2 units, ZeRO-3 on a ring. Each unit's parameters are
// gathered in two hops and used; then its gradients are reduced and scattered in two hops.

/** @import { Beat, Collective, ReplayDocument, Step, StepKind, Phase } from "#player/types.d.ts" */

export const NUM_RANKS = 3;
const ELEMENTS = [1200, 600];
const UNITS = ["embedding", "blocks.0"];
const MS = 1e6;
const RANKS = [0, 1, 2];

/** Parameters and gradients in bf16, a momentum in fp32. */
/** @type {import("#player/types.d.ts").State[]} */
const STATES = [
  { role: "parameters", name: "", tier: "device", label: "parameters · bf16", bytes_per_parameter: 2 },
  { role: "gradients", name: "", tier: "device", label: "gradients · bf16", bytes_per_parameter: 2 },
  { role: "momentum", name: "", tier: "device", label: "momentum · fp32", bytes_per_parameter: 4 },
];

/**
 * The number of a cell.
 * @param {number} rank @param {number} state @param {number} unit @param {number} shard
 */
export const cellOf = (rank, state, unit, shard) =>
  ((rank * STATES.length + state) * UNITS.length + unit) * NUM_RANKS + shard;

/**
 * A new document each time: a test may damage it.
 * @returns {ReplayDocument}
 */
export function makeDocument() {
  const maker = new Maker();
  maker.step("mark", "forward", -1, { title: "The iteration begins" });
  for (const unit of [0, 1]) {
    maker.gather("forward", unit);
    maker.compute("forward", unit, "Compute the output");
    maker.reshard("forward", unit);
  }
  for (const unit of [1, 0]) {
    maker.gather("backward", unit);
    maker.compute("backward", unit, "Compute the gradients", 4);
    maker.reduce(unit);
  }
  maker.step("compute", "update", -1, { title: "Adam updates the owned shards", ms: 6 });
  return maker.finish();
}

class Maker {
  constructor() {
    /** @type {Step[]} */
    this.steps = [];
    /** @type {Collective[]} */
    this.collectives = [];
    /** @type {string[]} */
    this.texts = [];
    /** @type {number[]} */
    this.bars = [];
    this.now = 0;
  }

  /** @param {string} text */
  text(text) {
    const known = this.texts.indexOf(text);
    return known >= 0 ? known : this.texts.push(text) - 1;
  }

  /**
   * @param {StepKind} kind @param {Phase} phase @param {number} unit
   * @param {Partial<Omit<Step, "title" | "what" | "why">> &
   *         {title: string, what?: string, why?: string, ms?: number}} more
   */
  step(kind, phase, unit, { title, what, why, ms = 1, ...more }) {
    const step = this.steps.length;
    const begin = this.now;
    this.now += ms * MS;
    this.steps.push({
      kind,
      phase,
      micro_step: 0,
      unit,
      unit_name: unit < 0 ? "" : UNITS[unit],
      op: "",
      purpose: "",
      collective: -1,
      hop: -1,
      time_ns: begin,
      start_ns: begin,
      end_ns: this.now,
      until: step,
      source: this.text("model.py:41 in Block.forward"),
      ranks: [...RANKS],
      packets: [],
      sent: [],
      waits: [],
      waiting: -1,
      copies: [],
      copy: null,
      origin: "",
      target: "",
      cells: [],
      freed: [],
      ...more,
      title: this.text(title),
      what: this.text(what ?? "Every rank does the same."),
      why: this.text(
        why ?? "Stage 3 keeps one third of every unit on each rank, so what is needed is gathered.",
      ),
    });
    if (kind !== "mark") {
      for (const rank of RANKS) {
        const phaseCode = ["forward", "backward", "update"].indexOf(phase);
        const lane = kind === "compute" ? 0 : 1;
        this.bars.push(rank, lane, lane, phaseCode, begin, this.now, step);
      }
    }
  }

  /** @param {Phase} phase @param {number} unit */
  gather(phase, unit) {
    const purpose = "gather parameters";
    const title = `${capital(phase)}: ${purpose} of ${UNITS[unit]}`;
    this.begin("all-gather", purpose, phase, unit, title);
    for (let hop = 0; hop < NUM_RANKS - 1; hop += 1) {
      /** @type {number[]} */
      const cells = [];
      for (const rank of RANKS) {
        if (hop > 0) {
          cells.push(cellOf(rank, 0, unit, around(rank - hop)), 2);
        }
        cells.push(cellOf(rank, 0, unit, around(rank - hop - 1)), 3);
      }
      this.hop("all-gather", purpose, phase, unit, hop, title, cells, (rank) => around(rank - hop));
    }
    this.arrived = RANKS.flatMap((rank) => [cellOf(rank, 0, unit, around(rank + 1)), 2]);
  }

  /** @param {Phase} phase @param {number} unit @param {string} title @param {number} [ms] */
  compute(phase, unit, title, ms = 2) {
    const cells = this.arrived ?? [];
    this.step("compute", phase, unit, { title: `${title} of ${UNITS[unit]}`, ms, cells });
    this.arrived = undefined;
  }

  /** @param {Phase} phase @param {number} unit */
  reshard(phase, unit) {
    const cells = RANKS.flatMap((rank) =>
      RANKS.filter((shard) => shard !== rank).flatMap((shard) => [cellOf(rank, 0, unit, shard), 0]),
    );
    this.step("mark", phase, unit, { title: `Free what was gathered of ${UNITS[unit]}`, cells });
  }

  /** @param {number} unit */
  reduce(unit) {
    const [op, purpose] = ["reduce-scatter", "reduce gradients"];
    const title = `Backward: ${purpose} of ${UNITS[unit]}`;
    this.begin(op, purpose, "backward", unit, title);
    const last = /** @type {Step} */ (this.steps.at(-1));
    last.cells = RANKS.flatMap((rank) =>
      RANKS.flatMap((shard) => [cellOf(rank, 1, unit, shard), 4]),
    );
    for (let hop = 0; hop < NUM_RANKS - 1; hop += 1) {
      const cells = RANKS.flatMap((rank) => [cellOf(rank, 1, unit, around(rank - hop - 2)), 5]);
      this.hop(op, purpose, "backward", unit, hop, title, cells, (rank) => around(rank - hop - 1));
    }
    const kept = RANKS.flatMap((rank) =>
      RANKS.flatMap((shard) => [cellOf(rank, 1, unit, shard), shard === rank ? 6 : 0]),
    );
    this.step("mark", "backward", unit, { title: `Keep the reduced shard of ${UNITS[unit]}`, cells: kept });
  }

  /** @param {string} op @param {string} purpose @param {Phase} phase @param {number} unit @param {string} title */
  begin(op, purpose, phase, unit, title) {
    const shard = (ELEMENTS[unit] / NUM_RANKS) * 2;
    const sent = RANKS.map(() => shard * (NUM_RANKS - 1));
    const first = this.steps.length;
    this.collectives.push({
      unit,
      unit_name: UNITS[unit],
      op,
      purpose,
      phase,
      algorithm: "ring",
      first,
      last: first + NUM_RANKS - 1,
      num_hops: NUM_RANKS - 1,
      shards_each: 1,
      payload_bytes: ELEMENTS[unit] * 2,
      elements: ELEMENTS[unit],
      element_bytes: 2,
      dtype: "bfloat16",
      bits: 0,
      formula: this.text("(N−1)/N · Ψ_unit · 2 B"),
      filled: this.text(`(3−1)/3 · ${ELEMENTS[unit]} · 2 B = ${sent[0]} B`),
      theory: [...sent],
      trace: [...sent],
      wire: sent.map((bytes) => bytes + 128),
      excess: sent.map(() => 0),
      is_more: false,
      framing: sent.map(() => 128),
    });
    const collective = this.collectives.length - 1;
    this.step("collective", phase, unit, { title, op, purpose, collective, what: `${op} begins` });
  }

  /**
   * @param {string} op @param {string} purpose @param {Phase} phase @param {number} unit
   * @param {number} hop @param {string} title @param {number[]} cells
   * @param {(rank: number) => number} shardOf
   */
  hop(op, purpose, phase, unit, hop, title, cells, shardOf) {
    const bytes = (ELEMENTS[unit] / NUM_RANKS) * 2;
    const packets = RANKS.flatMap((rank) => [
      rank,
      around(rank + 1),
      shardOf(rank),
      bytes,
      this.now,
      this.now + 0.8 * MS,
    ]);
    const collective = this.collectives.length - 1;
    const what = `Ring ${op}, hop ${hop + 1} of ${NUM_RANKS - 1}: each rank forwards what it received before.`;
    this.step("transfer", phase, unit, { title, what, op, purpose, collective, hop, packets, cells });
  }

  /** What a class would call one thing: a mark goes with the step before it. @returns {Beat[]} */
  beats() {
    /** @type {Beat[]} */
    const beats = [];
    for (const [k, step] of this.steps.entries()) {
      const before = this.steps[k - 1];
      const last = beats.at(-1);
      if (last && (step.kind === "mark" || (step.collective >= 0 && step.collective === before.collective))) {
        last.last = k;
        if (this.texts[step.title].startsWith("Free")) {
          last.signs.push("free");
        }
        continue;
      }
      beats.push({
        first: k,
        last: k,
        main: k,
        signs: [signOf(step)],
        label: step.unit < 0 ? "" : ["emb", "0"][step.unit],
        units: step.unit < 0 ? [] : [step.unit],
        phase: step.phase,
        micro_step: 0,
        freed: [],
        title: step.title,
        what: this.text("Every rank does the same in this beat."),
        meanwhile: -1,
        waiting: -1,
        within: "",
        is_prefetch: false,
      });
    }
    return beats;
  }

  /** @returns {ReplayDocument} */
  finish() {
    const beats = this.beats();
    const psi = ELEMENTS.reduce((sum, one) => sum + one, 0);
    const cells = new Array(NUM_RANKS * STATES.length * UNITS.length * NUM_RANKS).fill(0);
    for (const rank of RANKS) {
      for (const unit of UNITS.keys()) {
        cells[cellOf(rank, 0, unit, rank)] = 1;
        cells[cellOf(rank, 2, unit, rank)] = 1;
      }
    }
    return {
      schema: 2,
      name: "sample",
      run: {
        model: "tiny",
        stage: 3,
        stage_name: "ZeRO-3",
        dtype: "bf16",
        num_ranks: NUM_RANKS,
        ranks_per_node: NUM_RANKS,
        algorithm: "ring",
        backend: "gloo",
        device: "cpu",
        num_parameters: psi,
        element_bytes: 2,
        accumulate: 1,
        is_predicted: false,
        complete: true,
        iteration: 2,
        iterations: [0, 1, 2],
        loss: 3.25,
      },
      ranks: [...RANKS],
      stands_for: RANKS.map(() => 1),
      units: UNITS.map((name, unit) => ({
        name,
        elements: ELEMENTS[unit],
        padded_elements: ELEMENTS[unit],
        trainable: true,
        module: "",
        stage: "",
        hue: 0,
      })),
      states: STATES.map((state) => ({ ...state })),
      matrices: [],
      texts: this.texts,
      steps: this.steps,
      beats,
      local_ns: RANKS.map((rank) => this.steps.map((step) => step.time_ns + rank * 1e4)),
      collectives: this.collectives,
      cells: cells.join(""),
      num_shards: NUM_RANKS,
      timeline: { duration_ns: this.now, bars: this.bars, launches: [], path: [] },
      traffic: {
        law: "3Ψ(N−1)/N",
        law_bytes: 3 * psi * 2 * (2 / 3),
        psi_bytes: psi * 2,
        total: RANKS.map(() => 3 * psi * 2 * (2 / 3)),
        links: [],
      },
      memory: {
        roles: ["optimizer", "parameters", "gradients", "gathered"],
        tiers: ["device", "device", "device", "device"],
        ranks: RANKS.map(() => ({
          times_ns: [0, this.now / 4, this.now / 2, this.now],
          bytes: [
            [2400, 2400, 2400, 2400],
            [1200, 1200, 1200, 1200],
            [0, 0, 600, 1200],
            [0, 2400, 1200, 0],
          ],
          peak_ns: this.now / 4,
          peak_bytes: 6000,
          peak_step: 8,
          cause: this.text("gathered parameters of embedding"),
        })),
        law: "8Ψ/N",
        law_bytes: (psi * 8) / NUM_RANKS,
        laws: [{ tier: "device", law: "8Ψ/N", law_bytes: (psi * 8) / NUM_RANKS }],
      },
      verdict: { headline: "Every byte agrees with the theory.", outcome: "as predicted" },
      tour: [
        { about: "run", step: 0, title: "ZeRO-3 on 3 ranks", text: "Each rank keeps 1/3." },
        { about: "beat", step: beats[1].main, title: "The first beat", text: "It is gathered." },
        { about: "sum", step: this.steps.length - 1, title: "The sum", text: "That is 3Ψ(N−1)/N." },
      ],
      notes: [],
      broken: null,
    };
  }
}

/** @param {Step} step @returns {import("#player/types.d.ts").Sign} */
function signOf({ kind, phase, purpose }) {
  if (kind === "mark") {
    return "begin";
  }
  if (kind === "compute") {
    return phase === "update" ? "update" : "compute";
  }
  return purpose.includes("gradients") ? "reduce" : "gather";
}

/** @param {number} rank */
function around(rank) {
  return (((rank % NUM_RANKS) + NUM_RANKS) % NUM_RANKS);
}

/** @param {string} word */
function capital(word) {
  return word[0].toUpperCase() + word.slice(1);
}
