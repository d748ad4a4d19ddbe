// Reads the Compare page's data: an alignment and the replays that it aligns, checked together.

import { DocumentError, flag, list, nullable, finite, record, text, whole } from "#player/checks.js";
import { paceOfTimes } from "#player/pace.js";
import { readModel } from "#player/model.js";
import { say } from "#player/words.js";

/** @import { Model, PhaseSpan, Track } from "#player/scene.d.ts" */
/** @import { AlignedRun, Alignment, Moment } from "#player/types.d.ts" */

/**
 * One run: its replay, and its part of the alignment.
 * @typedef {{aligned: AlignedRun, model: Model}} Run
 */

/**
 * The data of a comparison.
 * @typedef {object} Comparison
 * @property {Alignment} alignment
 * @property {Run[]} runs
 * @property {Track} track the steps of the cursor: each is a moment
 * @property {Int32Array[]} units by run and moment: the unit's position in that run; -1
 */

/**
 * @param {unknown} alignment
 * @param {readonly unknown[]} documents in the order of its runs
 * @returns {Comparison}
 * @throws {DocumentError} they are invalid for the page
 */
export function readComparison(alignment, documents) {
  const models = documents.map(readModel);
  const checked = checkAlignment(alignment, models);
  const runs = models.map((model, r) => ({ aligned: checked.runs[r], model }));
  return {
    alignment: checked,
    runs,
    track: makeTrack(checked.moments, runs),
    units: models.map(({ doc }) => {
      const names = doc.units.map(({ name }) => name);
      return Int32Array.from(checked.moments, ({ unit }) => names.indexOf(unit));
    }),
  };
}

/**
 * Where a global rank is in a run.
 * @param {Run} run
 * @param {number} rank
 */
export function placeOf({ model }, rank) {
  return model.doc.ranks.indexOf(rank);
}

/** @param {unknown} value @param {readonly Model[]} models @returns {Alignment} */
function checkAlignment(value, models) {
  record({ moments: list(record({ phase: text, what: text, unit: text, micro_step: whole(0) })) })(value, "");
  const { length } = /** @type {Alignment} */ (value).moments;
  if (length === 0) {
    throw new DocumentError(say("compare.model.the_runs_have_no_moment_in"));
  }
  record({
    titles: list(text, length),
    whats: list(text, length),
    runs: list(
      record({
        name: text,
        title: text,
        law: text,
        law_bytes: nullable(finite),
        steps: list(whole(0), length),
        came: list(flag, length),
        follows: list(text, length),
      }),
      models.length,
    ),
    ranks: list(whole(0)),
    notes: list(text),
  })(value, "");
  const alignment = /** @type {Alignment} */ (value);
  for (const [r, { name, steps }] of alignment.runs.entries()) {
    list(whole(0, models[r].numSteps))(steps, `runs[${r}].steps`);
    for (const rank of alignment.ranks) {
      if (!models[r].doc.ranks.includes(rank)) {
        throw new DocumentError(say("compare.model.holds_no_rank", { name, rank }));
      }
    }
  }
  return alignment;
}

/**
 * @param {readonly Moment[]} moments
 * @param {readonly Run[]} runs
 * @returns {Track}
 */
function makeTrack(moments, runs) {
  /** @type {PhaseSpan[]} */
  const phases = [];
  const phaseOf = new Int32Array(moments.length);
  for (const [m, { phase }] of moments.entries()) {
    const span = phases.at(-1);
    if (span?.phase === phase) {
      span.last = m;
    } else {
      phases.push({ phase, first: m, last: m });
    }
    phaseOf[m] = phases.length - 1;
  }
  // A moment is at another time in each run; how long it is shown goes by the mean of them.
  const times = Float64Array.from(moments, (_, m) =>
    runs.reduce((sum, { aligned, model }) => sum + model.times[aligned.steps[m]], 0) / runs.length,
  );
  const numPackets = new Int32Array(moments.length);
  const stepMs = paceOfTimes(times, numPackets);
  const each = Int32Array.from(moments, (_, m) => m);
  return {
    numSteps: moments.length,
    lastStep: moments.length - 1,
    times,
    phases,
    phaseOf,
    beatMain: each,
    beatOf: each,
    stepMs,
    hopMs: stepMs,
    numPackets,
  };
}
