// "Run it": the command to copy, its one parameter, and recording on the machine that serves.

import { find, write } from "#player/dom.js";
import { NoAnswer, ask } from "#player/lesson/server.js";
import { fill } from "#player/lesson/words.js";

/** @import { Recording } from "#player/lesson/server.js" */
/** @import { Words } from "#player/lesson/words.js" */

const LOOK_EVERY_MS = 700;

/**
 * Listen to all cards of a lesson, also those that come later.
 * @param {HTMLElement} root
 * @param {string} lesson
 * @param {Words} words
 */
export function listenToRuns(root, lesson, words) {
  root.addEventListener("change", ({ target }) => {
    const card = target instanceof HTMLSelectElement ? target.closest(".run-card") : null;
    if (card && target instanceof HTMLSelectElement) {
      const command = target.selectedOptions[0]?.dataset.command ?? "";
      write(find(card, ".command code", HTMLElement), command);
    }
  });
  root.addEventListener("click", ({ target }) => {
    const card = target instanceof Element ? target.closest(".run-card") : null;
    if (!(card instanceof HTMLElement) || !(target instanceof Element)) {
      return;
    }
    const copy = target.closest(".copy");
    const here = target.closest(".run-here");
    if (copy instanceof HTMLButtonElement) {
      copyText(find(card, ".command code", HTMLElement), copy, words.copied);
    } else if (here instanceof HTMLButtonElement) {
      runHere(card, here, lesson, words);
    }
  });
}

/**
 * Copy a command, and say so on its button; where the browser does not let us, select it.
 * @param {HTMLElement} code @param {HTMLButtonElement} button @param {string} copied
 */
export async function copyText(code, button, copied) {
  try {
    await navigator.clipboard.writeText(code.textContent ?? "");
    write(button, copied);
  } catch {
    getSelection()?.selectAllChildren(code);
  }
}

/**
 * Record, say how far it is, and go to the lesson with the new run.
 * @param {HTMLElement} card
 * @param {HTMLButtonElement} button
 * @param {string} lesson
 * @param {Words} words
 */
async function runHere(card, button, lesson, words) {
  const said = find(card, ".run-said", HTMLElement);
  const address = `/api/lessons/${encodeURIComponent(lesson)}/record`;
  const value = card.querySelector("select")?.value ?? "";
  button.disabled = true;
  try {
    /** @type {Recording} */
    let job = await ask(address, words.no_server, { block: card.dataset.runBlock, value });
    while (job.state === "waiting" || job.state === "running") {
      write(said, progressOf(job, words));
      await new Promise((done) => setTimeout(done, LOOK_EVERY_MS));
      job = await ask(`${address}/${encodeURIComponent(job.ticket)}`, words.no_server);
    }
    if (job.state === "failed") {
      throw new NoAnswer(fill(words.failed, { reason: job.problem }));
    }
    location.assign(`${location.pathname}?run=${encodeURIComponent(job.ticket)}${location.hash}`);
  } catch (error) {
    if (!(error instanceof NoAnswer)) {
      throw error;
    }
    write(said, error.message);
    button.disabled = false;
  }
}

/** @param {Recording} job @param {Words} words */
function progressOf({ state, before, seconds }, words) {
  return state === "waiting"
    ? fill(words.waiting, { before })
    : fill(words.running, { seconds: Math.round(seconds) });
}
