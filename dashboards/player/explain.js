// The words of a moment: title, what happens, why, the formula and its three ledgers.

import { find, make, write } from "#player/dom.js";
import { formatBytes, formatPsi } from "#player/format.js";
import { readCopy, readLedger } from "#player/ledger.js";
import { lookOf, markOf } from "#player/outcome.js";

/** @import { Model, Scene } from "#player/scene.d.ts" */

/**
 * @param {HTMLElement} root
 * @param {Model} model
 */
export function createExplanation(root, model) {
  const { doc } = model;
  /** @param {string} id */
  const at = (id) => find(root, `#${id}`, HTMLElement);
  const [title, what, why, waiting, sentBy] = ["title", "what", "why", "waiting", "sent-by"].map(at);
  const [formula, filled, ledger, source] = ["formula", "filled", "ledger", "source"].map(at);
  const [traffic, cause, scroll] = ["traffic-text", "cause", "why-scroll"].map(at);
  const peak = find(root, "#peak", HTMLButtonElement);
  const [peakBytes, peakEvent] = ["peak-bytes", "peak-event"].map(at);
  let shown = "";

  /** What changes with the step or the selected rank. @param {Scene} scene */
  function explain({ position, rank }) {
    const step = doc.steps[position];
    const collective = doc.collectives[step.collective];
    const moved = step.copy ?? collective;
    const takesPart = step.ranks.includes(rank);
    const global = doc.ranks[rank];
    write(title, doc.texts[step.title]);
    title.title = doc.texts[step.title];
    write(what, doc.texts[step.what]);
    write(why, doc.texts[step.why]);
    write(source, doc.texts[step.source] ?? "");
    write(waiting, doc.texts[step.waiting] ?? "");
    waiting.hidden = step.waiting < 0;
    write(sentBy, step.copy ? copyWords(global, takesPart) : collective ? sendWords(global, takesPart, collective.num_hops) : "no bytes are sent in this step");
    const told = takesPart ? moved : undefined;
    write(formula, (told && doc.texts[told.formula]) ?? "");
    write(filled, told && doc.texts[told.filled] ? `= ${doc.texts[told.filled]}` : "");
    const entries = !takesPart ? [] : step.copy ? readCopy(step, step.copy, rank) : collective ? readLedger(collective, rank) : [];
    ledger.replaceChildren(...entries.map(entryBox));
    const memory = doc.memory?.ranks[rank];
    write(peakBytes, memory ? `peak ${formatBytes(memory.peak_bytes)}` : "not recorded");
    write(peakEvent, memory ? ` at step ${memory.peak_step + 1}` : "");
    write(cause, memory ? doc.texts[memory.cause] : "");
    peak.disabled = !memory;
    peak.title = memory ? `Go to the peak, step ${memory.peak_step + 1}: ${doc.texts[memory.cause]}` : "";
    cause.title = cause.textContent ?? "";
    scroll.scrollTop = 0;
  }

  /** @param {Scene} scene */
  return function update(scene) {
    const key = `${scene.position} ${scene.rank}`;
    if (key !== shown) {
      shown = key;
      explain(scene);
    }
    write(traffic, trafficText(model, scene.sent[scene.rank], scene.rank));
  };
}

/** @param {number} rank global @param {boolean} takesPart */
function copyWords(rank, takesPart) {
  return takesPart ? `rank ${rank} copies` : `rank ${rank} copies nothing in this step`;
}

/** Of all hops together: a ledger is that of the whole collective.
 *  @param {number} rank global @param {boolean} takesPart @param {number} hops */
function sendWords(rank, takesPart, hops) {
  if (!takesPart) {
    return `rank ${rank} takes no part in this step`;
  }
  return hops > 1 ? `rank ${rank} sends, in all ${hops} hops,` : `rank ${rank} sends`;
}

/** @param {import("#player/ledger.js").Entry} entry */
function entryBox({ name, value, outcome, note }) {
  const term = make("dt", "", name, markOf(outcome));
  return make("div", `entry ${lookOf(outcome)}`, term, make("dd", "value", value), make("dd", "note", note));
}

/** @param {Model} model @param {number} sent @param {number} rank */
function trafficText({ doc }, sent, rank) {
  const { psi_bytes: psi, law_bytes: law, total } = doc.traffic;
  const whole = law ?? total[rank];
  /** @param {number} bytes */
  const say = (bytes) => (psi > 0 ? formatPsi(bytes, psi) : formatBytes(bytes));
  return whole === null ? say(sent) : `${say(sent)} of ${say(whole)}`;
}
