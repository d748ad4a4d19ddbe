// Pipelines in the magnifier: the micro-batches of each stage, and those in flight. The contents of a rank
// follow from the messages of the micro-batches, up to a step. Pure.

import { formatRanks, joinDots } from "#player/format.js";
import { edgesOf } from "#player/draw/ring.js";
import { say } from "#player/words.js";

/** @import { Magnified } from "#player/lens/magnify.js" */
/** @import { Model } from "#player/scene.d.ts" */
/** @import { CellCode, Step } from "#player/types.d.ts" */

/** What a rank computes in a beat: a micro-batch of one of its stages. @typedef {{phase: "forward" | "backward", micro: number, stage: string, unit: number}} Turn */

const FORWARD = "send activations";
const BACKWARD = "send gradients of activations";
/** The state of a micro-batch on a stage. */
export const FLIGHT = /** @type {const} */ ({ NONE: 0, COMES: 1, HERE: 2, DONE: 3 });

/** Whether micro-batches go from rank to rank. @param {Pick<Model, "doc">} model */
export function isPipeline(model) {
  let known = pipelines.get(model.doc);
  if (known === undefined) {
    known = model.doc.steps.some(({ purpose }) => purpose === FORWARD);
    pipelines.set(model.doc, known);
  }
  return known;
}

/** @type {WeakMap<object, boolean>} */
const pipelines = new WeakMap();

/** The stage that a step is about: "stage 1" of "stage 1.blocks.0". @param {Step} step */
function stageOf({ unit_name: unit }) {
  return unit.split(".")[0];
}

/**
 * By rank the stages that it computes, in the order of the model; several if they are interleaved.
 * @param {Model} model
 * @returns {string[][]}
 */
export function stagesOf({ doc }) {
  const found = doc.ranks.map(() => /** @type {Set<string>} */ (new Set()));
  for (const step of doc.steps) {
    for (const rank of isTurn(step) ? step.ranks : []) {
      found[rank].add(stageOf(step));
    }
  }
  return found.map((stages) => [...stages].sort((one, other) => one.length - other.length || one.localeCompare(other)));
}

/** @param {Step} step */
function isTurn({ kind, phase }) {
  return kind === "compute" && (phase === "forward" || phase === "backward");
}

/**
 * What a rank computes in the beat of a step; null if nothing.
 * @param {Model} model
 * @param {number} position
 * @param {number} rank
 * @returns {Turn | null}
 */
export function turnIn({ doc, beatOf }, position, rank) {
  const { first, last } = doc.beats[beatOf[position]];
  const step = doc.steps.slice(first, last + 1).find((one) => isTurn(one) && one.ranks.includes(rank));
  const phase = step?.phase === "forward" ? "forward" : "backward";
  return step ? { phase, micro: step.micro_step, stage: stageOf(step), unit: step.unit } : null;
}

/**
 * By rank, stage of it and micro-batch what the rank has of it: once its forward is computed, until its
 * backward is.
 * @param {Model} model
 * @param {number} position
 * @returns {number[][][]}
 */
export function flightAt(model, position) {
  const { doc } = model;
  const count = 1 + Math.max(...doc.steps.map(({ purpose, micro_step: micro }) => (purpose === FORWARD || purpose === BACKWARD ? micro : 0)));
  const stages = stagesOf(model);
  const found = stages.map((own) => own.map(() => new Array(count).fill(FLIGHT.NONE)));
  const over = backwardsOver(model);
  for (let k = 0; k <= position; k += 1) {
    const step = doc.steps[k];
    const { phase, purpose, ranks, micro_step: micro } = step;
    for (const { from, to } of purpose === FORWARD ? edgesOf(step) : []) {
      const place = to < 0 ? -1 : stages[to].indexOf(stageBehind(step, from, to));
      if (place >= 0) {
        found[to][place][micro] = FLIGHT.COMES;
      }
    }
    for (const rank of isTurn(step) ? ranks : []) {
      const place = stages[rank].indexOf(stageOf(step));
      if (phase === "forward") {
        found[rank][place][micro] = FLIGHT.HERE;
      } else if (over.get(`${rank} ${stageOf(step)} ${micro}`) === k) {
        found[rank][place][micro] = FLIGHT.DONE;
      }
    }
  }
  return found;
}

/** The stage that activations come to; a message is called after the stage of the lower rank.
 *  @param {Step} step @param {number} from @param {number} to */
function stageBehind(step, from, to) {
  const number = Number(stageOf(step).replace("stage ", ""));
  return `stage ${from >= 0 && from < to ? number + 1 : number}`;
}

/** By rank, stage and micro-batch the last step of its backward. @param {Model} model @returns {Map<string, number>} */
function backwardsOver({ doc }) {
  /** @type {Map<string, number>} */
  const found = new Map();
  for (const [k, step] of doc.steps.entries()) {
    for (const rank of isTurn(step) && step.phase === "backward" ? step.ranks : []) {
      found.set(`${rank} ${stageOf(step)} ${step.micro_step}`, k);
    }
  }
  return found;
}

/**
 * @param {Model} model
 * @param {number} position
 * @param {boolean} hops step by step; else the state at the end of the beat
 * @returns {Pick<Magnified, "rows" | "tiles" | "caption" | "words">}
 */
export function magnifyFlight(model, position, hops) {
  const { doc, beatOf } = model;
  const { unit_name: unit, purpose, micro_step: micro } = doc.steps[position];
  const stages = stagesOf(model);
  const flight = flightAt(model, hops ? position : beatOf.lastIndexOf(beatOf[position]));
  const isSent = purpose === FORWARD || purpose === BACKWARD;
  const numStages = new Set(stages.flat()).size;
  const count = flight.flat()[0]?.length ?? 0;
  const whole = say("lens.flight.micro_batches_through_stages_which_ones", { count, stages: numStages });
  const rows = Math.max(...stages.map((own) => own.length));
  return {
    caption: hops ? joinDots([unit, purpose, isSent && say("lens.flight.micro_batch_of", { micro: micro + 1, count })]) : whole,
    rows: Array.from({ length: rows }, (_, row) => ({ label: rowName(stages, row), states: [], isFlight: true })),
    tiles: flight.map((own, rank) => {
      const turn = hops ? null : turnIn(model, position, rank);
      return own.map((row, place) => row.map((code, shard) => ({
        shard, hue: shard, code: /** @type {CellCode} */ (code), isAll: true, sum: "", isFreed: false, becomes: /** @type {CellCode} */ (2),
        isNow: turn !== null && turn.stage === stages[rank][place] && turn.micro === shard,
      })));
    }),
    words: flight.map((own) => {
      /** Which ones; of several stages how many. @param {number} code */
      const having = (code) => {
        const found = own.map((row) => row.flatMap((one, i) => (one === code ? [i + 1] : [])));
        return own.length > 1 ? String(found.flat().length || "") : formatRanks(found.flat());
      };
      const parts = [
        having(FLIGHT.HERE) && say("lens.flight.keeps", { here: having(FLIGHT.HERE) }),
        having(FLIGHT.COMES) && say("lens.flight.received", { comes: having(FLIGHT.COMES) }),
        having(FLIGHT.DONE) && say("lens.flight.done", { done: having(FLIGHT.DONE) }),
      ];
      return parts.filter(Boolean).join(" · ");
    }),
  };
}

/** What a row is of: the stages in it, if the ranks have several. @param {string[][]} stages @param {number} row */
function rowName(stages, row) {
  const numbers = stages.flatMap((own) => (own[row] ? [Number(own[row].replace("stage ", ""))] : []));
  return stages.every((own) => own.length < 2) ? say("lens.flight.micro_batches") : say("lens.flight.stages", { num: numbers.length, stages: formatRanks(numbers.sort((a, b) => a - b)) });
}
