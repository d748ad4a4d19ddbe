// The words of a moment: title, event, reason, the formula and its three ledgers.

import { besideBeat, isBeside, momentOf } from "#player/beats.js";
import { find, make, returnsToTop, write } from "#player/dom.js";
import { formatBytes, formatPsi } from "#player/format.js";
import { readCopy, readLedger } from "#player/ledger.js";
import { wordsOf } from "#player/moment.js";
import { createSources } from "#player/source.js";
import { nameOfStop } from "#player/tour.js";
import { lookOf, markOf } from "#player/outcome.js";
import { say } from "#player/words.js";

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
  const hop = at("hop");
  const writeSource = createSources(root);
  const moment = find(root, ".moment", HTMLElement);
  const [traffic, cause, scroll] = ["traffic-text", "cause", "why-scroll"].map(at);
  const peak = find(root, "#peak", HTMLButtonElement);
  const [peakBytes, peakEvent] = ["peak-bytes", "peak-event"].map(at);
  const [toTopOfWhat, toTopOfWhy] = [what, scroll].map(returnsToTop);
  const because = at("because");
  const lane = at("lane");
  const dots = find(lane, ".dots", HTMLElement);
  const hasLane = doc.beats.some(({ meanwhile }) => meanwhile >= 0);
  const isAsked = "embed" in document.documentElement.dataset; // beside a lesson's question of how many
  let shown = "";

  /** Concurrent actions of the beat, in a lane of their own. @param {Scene} scene */
  function writeLane({ hops, tour, now }) {
    const beat = model.beatOf[now.position];
    const beside = hops || doc.tour[tour] ? [] : besideBeat(model, beat);
    lane.hidden = !hasLane || doc.tour[tour] !== undefined;
    const said = hops || doc.tour[tour] ? "" : (doc.texts[doc.beats[beat].meanwhile] ?? "");
    lane.classList.toggle("empty", said === "");
    write(find(lane, ".said", HTMLElement), said);
    write(dots, beside.map((k) => (k < now.position ? "●" : k === now.position ? "◐" : "○")).join(""));
  }

  /** The parts that change with the step or the selected rank. @param {Scene} scene */
  function explain({ position, rank, hops, tour, isOver }) {
    const step = doc.steps[position];
    const beat = model.beatOf[position];
    const told = hops || isBeside(model, position) ? step : doc.beats[beat];
    const stop = doc.tour[tour];
    const collective = doc.collectives[step.collective];
    const moved = step.copy ?? collective;
    const takesPart = step.ranks.includes(rank);
    const global = doc.ranks[rank];
    const words = wordsOf({ model, position, hops, tour });
    write(title, words.title);
    title.title = words.title;
    const isBeat = hasLane && !stop && told === doc.beats[beat];
    write(what, isBeat ? doc.texts[doc.beats[beat].what] : words.what);
    moment.classList.toggle("touring", stop !== undefined);
    toTopOfWhat();
    what.tabIndex = stop && what.scrollHeight > what.clientHeight ? 0 : -1;
    write(hop, stop ? nameOfStop(model, tour) : momentOf(model, position, { hops, isOver }, isAsked));
    hop.hidden = hop.textContent === "";
    hop.title = !hops && !stop && !isOver && model.results[beat] ? say("explain.then_the_result") : "";
    write(why, doc.texts[step.why]);
    write(because, say("explain.because", { why: doc.texts[step.why] }));
    because.title = doc.texts[step.why];
    writeSource(source, doc.texts[step.source] ?? "");
    write(waiting, doc.texts[told.waiting] ?? "");
    waiting.hidden = told.waiting < 0;
    write(sentBy, step.copy ? copyWords(global, takesPart) : collective ? sendWords(global, takesPart, collective.num_hops) : say("explain.no_bytes_are_sent_in_this"));
    const law = takesPart ? moved : undefined;
    write(formula, (law && doc.texts[law.formula]) ?? "");
    write(filled, law && doc.texts[law.filled] ? `= ${doc.texts[law.filled]}` : "");
    const entries = !takesPart ? [] : step.copy ? readCopy(step, step.copy, rank) : collective ? readLedger(collective, rank) : [];
    ledger.replaceChildren(...entries.map(entryBox));
    const memory = doc.memory?.ranks[rank];
    write(peakBytes, memory ? say("explain.peak", { peak_bytes: formatBytes(memory.peak_bytes) }) : say("shared.not_recorded"));
    write(peakEvent, memory ? say("explain.at_step", { peak_step: memory.peak_step + 1 }) : "");
    write(cause, memory ? doc.texts[memory.cause] : "");
    peak.disabled = !memory;
    peak.title = memory ? say("explain.go_to_the_peak_step", { peak_step: memory.peak_step + 1, cause: doc.texts[memory.cause] }) : "";
    cause.title = cause.textContent ?? "";
    toTopOfWhy();
  }

  /** @param {Scene} scene */
  return function update(scene) {
    const key = `${scene.position} ${scene.rank} ${scene.hops} ${scene.tour} ${scene.isOver}`;
    if (key !== shown) {
      shown = key;
      explain(scene);
    }
    writeLane(scene);
    write(traffic, trafficText(model, scene.sent[scene.rank], scene.rank));
  };
}

/** @param {number} rank global @param {boolean} takesPart */
function copyWords(rank, takesPart) {
  return takesPart ? say("explain.rank_copies", { rank }) : say("explain.rank_copies_nothing_in_this_step", { rank });
}

/** Of all hops together: a ledger is that of the whole collective.
 *  @param {number} rank global @param {boolean} takesPart @param {number} hops */
function sendWords(rank, takesPart, hops) {
  if (!takesPart) {
    return say("explain.rank_takes_no_part_in_this", { rank });
  }
  return hops > 1 ? say("explain.rank_sends_in_all_hops", { rank, hops }) : say("explain.rank_sends", { rank });
}

/** @param {import("#player/ledger.js").Entry} entry */
function entryBox({ name, value, outcome, note }) {
  const term = make("dt", "", name, markOf(outcome));
  return make("div", `entry ${lookOf(outcome)}`, term, make("dd", "value", value), make("dd", "note", note));
}

/** How much a rank has sent of all that it sends. @param {Model} model @param {number} sent @param {number} rank */
export function trafficText({ doc }, sent, rank) {
  const { psi_bytes: psi, law_bytes: law, total } = doc.traffic;
  const whole = law ?? total[rank];
  /** @param {number} bytes */
  const amount = (bytes) => (psi > 0 ? formatPsi(bytes, psi) : formatBytes(bytes));
  return whole === null ? amount(sent) : say("shared.amount_of", { amount: amount(sent), whole: amount(whole) });
}
