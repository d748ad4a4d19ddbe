// A puzzle in its page: the program is written, checked, kept.

import { find, write } from "#player/dom.js";
import { copyText } from "#player/lesson/running.js";
import { NoAnswer, ask } from "#player/lesson/server.js";
import { fill, readWords } from "#player/lesson/words.js";
import { listenToEditor, placeOf } from "#player/puzzle/editing.js";
import { keep, keepVerdict, keptVerdict, loadKept } from "#player/puzzle/programs.js";
import { drawVerdict } from "#player/puzzle/verdict.js";

const LOOK_EVERY_MS = 400;
const words = readWords();
const root = find(document, "#puzzle", HTMLElement);
const name = root.dataset.puzzle ?? "";
const field = find(root, "#program", HTMLTextAreaElement);
const state = find(root, "#state", HTMLElement);
const verdict = find(root, "#verdict", HTMLElement);
const reset = find(root, "#reset", HTMLButtonElement);
const download = find(root, "#download", HTMLAnchorElement);
const button = root.querySelector("#check");
const task = field.defaultValue;
const file = download.href;

const numbers = find(root, "#numbers", HTMLElement);

function changed() {
  const count = field.value.split("\n").length;
  write(numbers, Array.from({ length: count }, (_, line) => line + 1).join("\n"));
  scrolled();
  const isTask = field.value === task;
  if (!isTask || loadKept()[name]) {
    keep(name, { program: isTask ? "" : field.value });
  }
  reset.disabled = isTask;
  write(reset, words.reset);
}

/** The numbers stand beside their lines. */
function scrolled() {
  numbers.scrollTop = field.scrollTop;
}

/** The program as a file; the original task from the server. */
function offer() {
  if (download.href.startsWith("blob:")) {
    URL.revokeObjectURL(download.href);
  }
  const written = new Blob([field.value], { type: "text/x-python" });
  download.href = field.value === task ? file : URL.createObjectURL(written);
}

/** @param {number} line */
function goTo(line) {
  const [start, end] = placeOf(field.value, line);
  field.focus();
  field.setSelectionRange(start, end);
  const height = field.scrollHeight / field.value.split("\n").length;
  field.scrollTop = Math.max(0, line * height - field.clientHeight / 2);
}

async function check() {
  if (!(button instanceof HTMLButtonElement) || button.disabled) {
    return;
  }
  button.disabled = true;
  const program = field.value;
  const address = `/api/puzzles/${encodeURIComponent(name)}/check`;
  try {
    write(state, words.checking);
    let job = await ask(address, words.no_server, { program });
    while (job.state === "waiting" || job.state === "running") {
      const { before, seconds } = job;
      const isWaiting = job.state === "waiting";
      write(state, fill(isWaiting ? words.waiting : words.running, { before, seconds: Math.round(seconds) }));
      await new Promise((done) => setTimeout(done, LOOK_EVERY_MS));
      job = await ask(`${address}/${encodeURIComponent(job.ticket)}`, words.no_server);
    }
    if (job.state === "failed") {
      throw new NoAnswer(fill(words.failed, { reason: job.problem }));
    }
    drawVerdict(verdict, job, words, goTo);
    keepVerdict(name, program, job);
    if (job.passes) {
      keep(name, { done: true });
    }
    write(state, "");
    verdict.scrollIntoView({ block: "nearest" });
  } catch (error) {
    if (!(error instanceof NoAnswer)) {
      throw error;
    }
    write(state, error.message);
  } finally {
    button.disabled = false;
  }
}

/** Offer the hint after one that was opened. @param {Event} event */
function opened({ target }) {
  if (target instanceof HTMLDetailsElement && target.open && target.classList.contains("hint")) {
    const next = target.nextElementSibling;
    if (next instanceof HTMLElement) {
      next.hidden = false;
    }
  }
}

field.value = loadKept()[name]?.program || task;
changed();
const before = keptVerdict(name, field.value);
if (before) {
  drawVerdict(verdict, before, words, goTo);
}
listenToEditor(field, check);
field.addEventListener("input", changed);
field.addEventListener("scroll", scrolled);
button?.addEventListener("click", check);
download.addEventListener("click", offer);
reset.addEventListener("click", () => {
  if (reset.textContent !== words.reset_sure) {
    write(reset, words.reset_sure);
    return;
  }
  field.value = task;
  verdict.hidden = true;
  changed();
  field.focus();
});
reset.addEventListener("blur", () => write(reset, words.reset));
root.addEventListener("toggle", opened, true);
root.addEventListener("click", ({ target }) => {
  const copy = target instanceof Element ? target.closest(".copy") : null;
  if (copy instanceof HTMLButtonElement && copy.parentElement) {
    copyText(find(copy.parentElement, "code", HTMLElement), copy, words.copied);
  }
});
