// A step in words and in rows: for the narration and for the table.

import { isBeside, sentenceOf, spokenBeat } from "#player/beats.js";
import { NUMBERS_PER_COPY, NUMBERS_PER_PACKET } from "#player/document.js";
import { formatBytes, formatRanks, formatWait } from "#player/format.js";
import { sentInStep, waitedIn } from "#player/frames.js";
import { say } from "#player/words.js";

/** @import { Model } from "#player/scene.d.ts" */
/** @import { ReplayDocument, Step, Tier } from "#player/types.d.ts" */

/**
 * The action of one rank in a step.
 * @typedef {object} Row
 * @property {number} rank the global rank
 * @property {string} doing
 * @property {number} sends bytes
 * @property {string} to global ranks
 * @property {number} receives bytes
 * @property {number} copies bytes between its tiers
 * @property {number} sent bytes before this step
 * @property {number | null} memory bytes; null where not recorded
 */

/**
 * The title and event of a moment: of a stop of a tour, of a beat, or of a step while hops are on.
 * @param {Pick<import("#player/scene.d.ts").Scene, "model" | "position" | "hops" | "tour">} scene
 */
export function wordsOf({ model, position, hops, tour }) {
  const { doc, beatOf } = model;
  const stop = doc.tour[tour];
  if (stop) {
    return { title: stop.title, what: stop.text };
  }
  const step = doc.steps[position];
  const beat = beatOf[position];
  return hops || isBeside(model, position)
    ? { title: doc.texts[step.title], what: doc.texts[step.what] }
    : { title: doc.texts[doc.beats[beat].title], what: sentenceOf(model, beat) };
}

/**
 * The spoken text: of a beat and of its result, or of a step while hops are on.
 * @param {Model} model
 * @param {number} position
 * @param {boolean} hops
 * @param {boolean} [isOver]
 */
export function narrate(model, position, hops, isOver = false) {
  const { doc, beatOf } = model;
  if (hops) {
    return narrateStep(model, position);
  }
  const beat = beatOf[position];
  if (isOver) {
    return say("moment.result", { title: doc.texts[doc.beats[beat].title] });
  }
  const spoken = spokenBeat(model, beat);
  const waits = doc.texts[doc.beats[beat].waiting] ?? "";
  return [sentence(spoken[0].toUpperCase() + spoken.slice(1)), sentenceOf(model, beat), waits].filter(Boolean).join(" ");
}

/** @param {Model} model @param {number} position */
function narrateStep(model, position) {
  const { doc, numSteps } = model;
  const step = doc.steps[position];
  const amounts = [...doc.ranks.keys()]
    .map((rank) => sentInStep(model, position, rank))
    .filter((bytes) => bytes > 0);
  const copied = [...doc.ranks.keys()].map((rank) => copiedInStep(step, rank)).filter((bytes) => bytes > 0);
  return [
    say("moment.step_of", { step: position + 1, of: numSteps }),
    sentence(doc.texts[step.title]),
    sentence(doc.texts[step.what]),
    doc.texts[step.waiting] ?? "",
    amounts.length > 0 ? narrateSent(amounts, "sends") : "",
    copied.length > 0 ? narrateSent(copied, "copies") : "",
  ]
    .filter(Boolean)
    .join(say("moment.between"));
}

/** @param {string} text */
function sentence(text) {
  return /[.!?。！？]$/.test(text) || text === "" ? text : say("moment.sentence", { text });
}

/** Bytes that a rank copies between its tiers in a step. @param {Step} step @param {number} rank */
export function copiedInStep({ copies }, rank) {
  let bytes = 0;
  for (let i = 0; i < copies.length; i += NUMBERS_PER_COPY) {
    bytes += copies[i] === rank ? copies[i + 1] : 0;
  }
  return bytes;
}

/** @param {readonly number[]} amounts of the ranks that do @param {"sends" | "copies"} does */
function narrateSent(amounts, does) {
  const [least, most] = [Math.min(...amounts), Math.max(...amounts)];
  if (amounts.length === 1) {
    return say(`moment.one_${does}`, { bytes: formatBytes(most) });
  }
  const each = least === most ? formatBytes(most) : say("moment.to", { least: formatBytes(least), most: formatBytes(most) });
  return say(`moment.several_${does}`, { ranks: amounts.length, each });
}

/**
 * @param {Model} model
 * @param {number} position
 * @returns {Row[]}
 */
export function readRows(model, position) {
  const { doc, numRanks } = model;
  const { packets } = doc.steps[position];
  return doc.ranks.map((global, rank) => {
    let receives = 0;
    /** @type {Set<number>} */
    const to = new Set();
    for (let i = 0; i < packets.length; i += NUMBERS_PER_PACKET) {
      if (packets[i + 1] === rank) {
        receives += packets[i + 3];
      }
      if (packets[i] === rank && packets[i + 1] >= 0) {
        to.add(doc.ranks[packets[i + 1]]);
      }
    }
    return {
      rank: global,
      doing: [doing(model, position, rank), waits(doc, doc.steps[position], rank)].filter(Boolean).join("; "),
      sends: sentInStep(model, position, rank),
      to: formatRanks([...to].sort((a, b) => a - b)),
      receives,
      copies: copiedInStep(doc.steps[position], rank),
      sent: model.sentBefore[position * numRanks + rank],
      memory: memoryAt(model, position, rank),
    };
  });
}

/**
 * The last step that a rank takes part in and that is still in progress.
 * @param {Model} model
 * @param {number} position
 * @param {number} rank
 */
function doing({ doc }, position, rank) {
  for (let k = position; k >= 0; k -= 1) {
    if (doc.steps[k].until >= position && doc.steps[k].ranks.includes(rank)) {
      return doc.texts[doc.steps[k].title];
    }
  }
  return "";
}

/** How long a rank waits in a step, in words. @param {ReplayDocument} doc @param {Step} step @param {number} rank */
function waits({ run }, step, rank) {
  const waited = waitedIn(step, rank);
  return waited > 0 ? formatWait(waited, run.is_predicted) : "";
}

/**
 * Bytes in use on the device of a rank, or in another of its tiers, at its own time in a step; null
 * where not recorded.
 * @param {Model} model
 * @param {number} position
 * @param {number} rank
 * @param {Tier} [tier]
 */
export function memoryAt(model, position, rank, tier = "device") {
  const tiers = model.doc.memory?.tiers ?? [];
  return rolesAt(model, position, rank)?.reduce((sum, bytes, i) => sum + (tiers[i] === tier ? bytes : 0), 0) ?? null;
}

/**
 * The same by series, in the order of `memory.roles` and `memory.tiers`.
 * @param {Model} model
 * @param {number} position
 * @param {number} rank
 * @returns {number[] | null}
 */
export function rolesAt({ doc }, position, rank) {
  const memory = doc.memory?.ranks[rank];
  if (!memory) {
    return null;
  }
  const now = doc.local_ns[rank][position];
  const after = memory.times_ns.findIndex((time) => time > now);
  const at = after < 0 ? memory.times_ns.length - 1 : after - 1;
  return at < 0 ? null : memory.bytes.map((role) => role[at]);
}
