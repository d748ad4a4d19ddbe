// The field that searches: lists the beats that were found, leads to them, and tells the strip.

import { spokenBeat } from "#player/beats.js";
import { find, make, write } from "#player/dom.js";
import { formatBytes, formatTime, joinDots } from "#player/format.js";
import { SearchError, bytesOf, findHits, longestWait, parseQuery } from "#player/search.js";
import { say } from "#player/words.js";

/** @import { Model } from "#player/scene.d.ts" */
/** @import { Hit } from "#player/search.js" */

/** More are counted, not listed. */
const MOST_LISTED = 200;

/**
 * @param {HTMLElement} root
 * @param {Model} model
 * @param {{found: (steps: number[]) => void, goTo: (step: number) => void}} wishes
 */
export function createSearch(root, model, { found, goTo }) {
  const dialog = find(root, "#search-dialog", HTMLDialogElement);
  const field = find(root, "#search-field", HTMLInputElement);
  const says = find(root, "#search-says", HTMLElement);
  const list = find(root, "#search-hits", HTMLElement);
  const button = find(root, "#search", HTMLButtonElement);
  /** @type {Hit[]} */
  let hits = [];

  function update() {
    const text = field.value.trim();
    hits = [];
    let problem = "";
    try {
      hits = text ? findHits(model, parseQuery(text)) : [];
    } catch (error) {
      if (!(error instanceof SearchError)) {
        throw error;
      }
      problem = error.message;
    }
    write(says, problem || (text ? countOf(hits.length, text) : ""));
    says.classList.toggle("wrong", problem !== "");
    list.replaceChildren(...hits.slice(0, MOST_LISTED).map((hit) => entryOf(model, hit)));
    write(button, hits.length > 0 ? say("searchfield.search", { hits: hits.length }) : say("searchfield.search_2"));
    found(hits.map(({ step }) => step));
  }

  /** @param {number} step */
  function leave(step) {
    dialog.close();
    goTo(step);
  }

  field.addEventListener("input", update);
  find(root, "#search-form", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    if (hits.length > 0) {
      leave(hits[0].step);
    }
  });
  list.addEventListener("click", ({ target }) => {
    const entry = target instanceof Element ? target.closest("button") : null;
    if (entry) {
      leave(Number(entry.dataset.step));
    }
  });
  return function open() {
    if (!dialog.open) {
      dialog.showModal();
    }
    field.focus();
    field.select();
  };
}

/** @param {number} count @param {string} text */
function countOf(count, text) {
  if (count === 0) {
    return say("searchfield.no_beat_agrees_with", { text });
  }
  const more = count > MOST_LISTED ? say("searchfield.first_listed", { listed: MOST_LISTED }) : "";
  return say("searchfield.beats", { num: count, more });
}

/** @param {Model} model @param {Hit} hit */
function entryOf(model, { step, beat }) {
  const { first, last } = model.doc.beats[beat];
  const bytes = bytesOf(model.doc, model.doc.steps[step]);
  const waited = longestWait(model, first, last, null);
  const amounts = joinDots([bytes > 0 && formatBytes(bytes), waited > 0 && say("searchfield.waits", { waited: formatTime(waited, model.doc.run.is_predicted) })]);
  const button = make("button", "", make("span", "", spokenBeat(model, beat)), make("span", "small", amounts));
  button.type = "button";
  button.dataset.step = String(step);
  return make("li", "", button);
}
