// Beats: the units of playback. The position of each, its duration, and its sign in a strip.

import { SIGNS } from "#player/document.js";
import { say } from "#player/words.js";

/** @import { Model, Scene, Track } from "#player/scene.d.ts" */
/** @import { Beat, ReplayDocument, Sign, Step } from "#player/types.d.ts" */

/** A beat is shown at least so long, at speed 1, and at most: by how much is in it. */
export const SHORTEST_BEAT_MS = 1500;
export const LONGEST_BEAT_MS = 2500;
/** A kind of beat that is new is watched longer, one that was seen before shorter. */
export const NEW_BEAT = 1.5;
export const KNOWN_BEAT = 0.75;
/** For each step after the first, and for freed units. */
const MORE_MS = 200;

/** @type {Readonly<Record<Sign, string>>} */
export const GLYPHS = {
  gather: "▼",
  compute: "■",
  free: "×",
  reduce: "▲",
  update: "↻",
  copy: "⇅",
  send: "▶",
  combine: "Σ",
  agree: "=",
  exchange: "◆",
  begin: "",
  end: "✓",
  stand: "…",
};

/** The meaning of the signs, for the help. @type {Readonly<Record<Sign, string>>} */
export const MEANINGS = {
  gather: say("beats.gather_parameters"),
  compute: say("beats.compute"),
  free: say("beats.free_what_was_gathered"),
  reduce: say("beats.reduce_gradients"),
  update: say("beats.the_optimizer_updates"),
  copy: say("beats.copy_between_tiers"),
  send: say("beats.send_to_another_stage"),
  combine: say("beats.put_parts_together"),
  agree: say("beats.agree_on_numbers"),
  exchange: say("beats.exchange_other_data"),
  begin: say("beats.a_phase_begins"),
  end: say("beats.the_iteration_is_over"),
  stand: say("beats.the_iteration_is_not_over"),
};

/** A word for each sign, beside the strip. @type {Readonly<Record<Sign, string>>} */
export const NAMES = {
  gather: say("beats.sign_gather"),
  compute: say("beats.sign_compute"),
  free: say("beats.sign_free"),
  reduce: say("beats.sign_reduce"),
  update: say("beats.sign_update"),
  copy: say("beats.sign_copy"),
  send: say("beats.sign_send"),
  combine: say("beats.sign_combine"),
  agree: say("beats.sign_agree"),
  exchange: say("beats.sign_exchange"),
  begin: "",
  end: say("beats.sign_end"),
  stand: say("beats.sign_stand"),
};

/** The signs that occur in a replay, each once, in the order of their list. @param {ReplayDocument} doc */
export function signsIn({ beats }) {
  const seen = new Set(beats.flatMap(({ signs, freed }) => (freed.length > 0 ? [...signs, "free"] : signs)));
  return SIGNS.filter((sign) => seen.has(sign) && GLYPHS[sign]);
}

/**
 * Positions of beats: by beat its first step and the one of a still picture, by step its beat.
 * @param {ReplayDocument} doc
 */
export function readBeats({ beats, steps }) {
  const beatOf = new Int32Array(steps.length);
  for (const [k, { first, last }] of beats.entries()) {
    beatOf.fill(k, first, last + 1);
  }
  return { beatOf, beatMain: Int32Array.from(beats, ({ main }) => main) };
}

/**
 * How long a beat is shown at speed 1, in milliseconds.
 * @param {Beat} beat
 */
export function beatDuration({ first, last, signs, freed }) {
  const more = last - first + (signs.includes("free") || freed.length > 0 ? 1 : 0);
  return Math.min(LONGEST_BEAT_MS, SHORTEST_BEAT_MS + MORE_MS * more);
}

/**
 * By step, how long it is shown at speed 1: the steps of a beat share its time.
 * @param {ReplayDocument} doc
 */
export function paceOfBeats({ beats, steps }) {
  const pace = new Float64Array(steps.length);
  const seen = new Set();
  for (const beat of beats) {
    const kind = `${beat.phase} ${beat.signs}`;
    const share = seen.has(kind) ? KNOWN_BEAT : NEW_BEAT;
    seen.add(kind);
    const own = steps.slice(beat.first, beat.last + 1).map(weightOf);
    const whole = own.reduce((sum, weight) => sum + weight, 0);
    const duration = share * beatDuration(beat);
    for (const [i, weight] of own.entries()) {
      pace[beat.first + i] = (duration * weight) / whole;
    }
  }
  return pace;
}

/** A mark has nothing to show; a step that frees a unit is shown longer. @param {Step} step */
function weightOf({ kind, freed }) {
  return (kind === "mark" ? 0.25 : kind === "compute" ? 1.5 : 1) + (freed.length > 0 ? 1 : 0);
}

/** The next beat; from before a beat's main step, that step. @param {Pick<Track, "beatOf" | "beatMain" | "numSteps">} track @param {number} position */
export function nextBeat({ beatOf, beatMain, numSteps }, position) {
  const beat = beatOf[position];
  return position < beatMain[beat] ? beatMain[beat] : (beatMain[beat + 1] ?? numSteps - 1);
}

/** The beginning of this beat, or the beat before. @param {Track} track @param {number} position */
export function previousBeat({ beatOf, beatMain }, position) {
  const beat = beatOf[position];
  return position > beatMain[beat] ? beatMain[beat] : beatMain[Math.max(0, beat - 1)];
}

/** The step of a still picture of a step's beat.
 *  @param {Pick<Track, "beatOf" | "beatMain">} track @param {number} position */
export function restOf({ beatOf, beatMain }, position) {
  return beatMain[beatOf[position]];
}

/**
 * Whether a step of a beat is concurrent with the beat's subject, as the gather of the next unit while this
 * one computes.
 * @param {Pick<Model, "doc" | "beatOf">} model
 * @param {number} position
 */
export function isBeside({ doc, beatOf }, position) {
  const { main, units } = doc.beats[beatOf[position]];
  const [step, about] = [doc.steps[position], doc.steps[main]];
  if (position === main || units.length === 0) {
    return false;
  }
  if (step.kind === "mark") {
    return about.kind !== "mark";
  }
  return step.unit >= 0 ? !units.includes(step.unit) : step.unit_name !== about.unit_name && step.unit_name !== "";
}

/**
 * The step that represents a beat at one of its steps, and its progress: during a concurrent step, the beat's
 * last own step, or its first. The title, the picture and the reason thus always agree.
 * @param {Pick<Model, "doc" | "beatOf">} model
 * @param {number} position
 * @param {number | null} tween null at rest: then a step represents itself
 * @returns {{position: number, tween: number | null}}
 */
export function subjectOf(model, position, tween) {
  if (tween === null || !isBeside(model, position)) {
    return { position, tween };
  }
  const { first, last, main } = model.doc.beats[model.beatOf[position]];
  for (let k = position; k >= first; k -= 1) {
    if (!isBeside(model, k)) {
      return { position: k, tween: 1 };
    }
  }
  for (let k = position; k <= last; k += 1) {
    if (!isBeside(model, k)) {
      return { position: k, tween: 0 };
    }
  }
  return { position: main, tween: 0 };
}

/** The steps of a beat that are about something else. @param {Model} model @param {number} beat */
export function besideBeat(model, beat) {
  const { first, last } = model.doc.beats[beat];
  const steps = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  return steps.filter((k) => model.doc.steps[k].kind !== "mark" && isBeside(model, k));
}

/**
 * A hop is a moment of something longer: "●◐○ hop 2 of 3"; at its end "●●● the result".
 * @param {Model} model
 * @param {number} position
 * @param {Pick<Scene, "hops" | "isOver">} scene
 * @param {boolean} isAsked a question asks for the number of hops, so it is not shown
 */
export function momentOf(model, position, { hops, isOver }, isAsked) {
  const { steps, collectives } = model.doc;
  const { hop, collective } = steps[position];
  const count = collectives[collective]?.num_hops ?? 0;
  const result = hops ? null : model.results[model.beatOf[position]];
  const dots = isAsked || hop < 0 || count > MOST_DOTS ? [] : Array.from({ length: count }, (_, k) => (k < hop || isOver ? "●" : k === hop ? "◐" : "○"));
  if (isOver && result) {
    return [dots.join(""), say("beats.the_result")].filter(Boolean).join(" ");
  }
  const words = hopOf(model, position, isAsked);
  return words && [dots.join(""), words].filter(Boolean).join(" ");
}

const MOST_DOTS = 8;

/**
 * The hop of a step: "hop 2 of 3"; "" if it has none.
 * @param {Model} model
 * @param {number} position
 * @param {boolean} isAsked a question asks for the number of hops, so it is not shown
 */
export function hopOf({ doc }, position, isAsked = false) {
  const { hop, collective } = doc.steps[position];
  const hops = doc.collectives[collective]?.num_hops ?? 0;
  const words = isAsked ? say("beats.hop", { hop: hop + 1 }) : say("beats.hop_of", { hop: hop + 1, hops });
  return hop >= 0 && hops > 1 ? words : "";
}

/** The name of a beat that is not visible: "beat 17 of 33: ...". @param {Model} model @param {number} beat */
export function spokenBeat({ doc }, beat) {
  return say("beats.beat_of", { beat: beat + 1, beats: doc.beats.length, title: doc.texts[doc.beats[beat].title] });
}

/** Concurrent actions of a beat, in a sentence or two. @param {Model} model @param {number} beat */
export function sentenceOf({ doc }, beat) {
  const { what, meanwhile } = doc.beats[beat];
  return [doc.texts[what], doc.texts[meanwhile] ?? ""].filter(Boolean).join(" ");
}
