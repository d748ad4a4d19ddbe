// The list of lessons: how far the reader is in each.

import { find, write } from "#player/dom.js";
import { forgetAll, loadAll } from "#player/lesson/progress.js";
import { fill, readWords } from "#player/lesson/words.js";

const words = readWords();
const forget = find(document, "#forget", HTMLButtonElement);

function show() {
  const all = loadAll();
  forget.hidden = Object.keys(all).length === 0;
  for (const card of document.querySelectorAll(".lesson-card")) {
    if (card instanceof HTMLElement) {
      showOne(card, all[card.dataset.lesson ?? ""]);
    }
  }
}

/** @param {HTMLElement} card @param {import("#player/lesson/progress.js").Progress} [progress] */
function showOne(card, progress) {
  const box = find(card, ".lesson-progress", HTMLElement);
  const steps = Number(card.dataset.steps);
  box.hidden = !progress;
  card.classList.toggle("done", progress?.done ?? false);
  if (progress) {
    const step = Math.min(progress.furthest, steps);
    const text = progress.done ? `✓ ${words.done}` : fill(words.at_step, { step, steps });
    write(find(box, ".progress-text", HTMLElement), text);
    find(box, ".bar-of span", HTMLElement).style.width = `${(100 * step) / steps}%`;
    find(card, "h2 a", HTMLAnchorElement).hash = `step=${Math.min(progress.step, steps)}`;
  }
}

forget.addEventListener("click", () => {
  forgetAll();
  show();
  for (const link of document.querySelectorAll("h2 a")) {
    if (link instanceof HTMLAnchorElement) {
      link.hash = "";
    }
  }
  write(find(document, "#kept", HTMLElement), words.forgotten);
});
addEventListener("storage", show);
addEventListener("pageshow", show);
show();
