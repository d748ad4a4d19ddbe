// The list of puzzles: which are solved.

import { find, write } from "#player/dom.js";
import { fill, readWords } from "#player/lesson/words.js";
import { forgetKept, loadKept } from "#player/puzzle/programs.js";

const words = readWords();
const forget = find(document, "#forget", HTMLButtonElement);
const said = find(document, "#kept", HTMLElement);

function show() {
  const kept = loadKept();
  const cards = [...document.querySelectorAll(".lesson-card")];
  let done = 0;
  for (const card of cards) {
    const one = card instanceof HTMLElement ? kept[card.dataset.puzzle ?? ""] : undefined;
    done += one?.done ? 1 : 0;
    card.classList.toggle("done", one?.done ?? false);
    const state = one?.done ? `✓ ${words.done}` : one?.program ? words.begun : "";
    write(find(card, ".puzzle-state", HTMLElement), state);
  }
  forget.hidden = Object.keys(kept).length === 0;
  write(forget, words.forget);
  write(said, done ? `${fill(words.count, { done, all: cards.length })} · ${words.kept}` : words.kept);
}

forget.addEventListener("click", () => {
  if (forget.textContent !== words.forget_sure) {
    write(forget, words.forget_sure); // a slip of the hand is not the end of an evening's work
    return;
  }
  forgetKept();
  show();
  write(said, words.forgotten);
});
forget.addEventListener("blur", () => write(forget, words.forget));
addEventListener("storage", show);
addEventListener("pageshow", show);
show();
