// The transport's state on screen, the list of ranks, and the choice of runs.

import { WORDS } from "#player/compare/words.js";
import { SPEEDS } from "#player/clock.js";
import { fillSelect, find, write } from "#player/dom.js";

/** @import { Alignment } from "#player/types.d.ts" */

/**
 * @typedef {object} Wishes
 * @property {(moment: number) => void} seek
 * @property {(speed: number) => void} setSpeed
 * @property {(rank: number) => void} selectRank
 */

/**
 * @param {HTMLElement} root
 * @param {Alignment} alignment
 * @param {Wishes} wishes
 */
export function createControls(root, { titles, ranks }, wishes) {
  const play = find(root, "#play", HTMLButtonElement);
  const seek = find(root, "#seek", HTMLInputElement);
  const event = find(root, "#event", HTMLElement);
  const speed = find(root, "#speed", HTMLSelectElement);
  const rank = find(root, "#rank", HTMLSelectElement);
  seek.max = String(titles.length);
  fillSelect(speed, SPEEDS.map((one) => [String(one), `${one}×`]));
  fillSelect(rank, ranks.map((global, at) => [String(at), WORDS.rank(global)]));
  seek.addEventListener("input", () => wishes.seek(Number(seek.value) - 1));
  speed.addEventListener("change", () => wishes.setSpeed(Number(speed.value)));
  rank.addEventListener("change", () => wishes.selectRank(Number(rank.value)));

  /** @param {{position: number, playing: boolean, speed: number, rank: number}} state */
  return function update(state) {
    const at = state.position + 1;
    write(event, WORDS.position(at, titles.length));
    seek.value = String(at);
    seek.setAttribute("aria-valuetext", WORDS.spoken(at, titles.length, titles[state.position]));
    play.classList.toggle("playing", state.playing);
    play.setAttribute("aria-label", state.playing ? WORDS.playing : WORDS.paused);
    speed.value = String(state.speed);
    rank.value = String(state.rank);
  };
}

/**
 * The choice of runs: errors are shown before any request to the server.
 * @param {HTMLElement} root
 */
export function watchChoices(root) {
  const form = find(root, "#choices", HTMLFormElement);
  const problem = find(root, "#choices-problem", HTMLElement);
  const go = find(root, "#choices-go", HTMLButtonElement);
  const [fewest, most] = [Number(form.dataset.fewest), Number(form.dataset.most)];
  form.addEventListener("change", () => {
    const { length } = form.querySelectorAll("input:checked");
    go.disabled = length < fewest || length > most;
    write(problem, length < fewest ? WORDS.tooFew(fewest) : length > most ? WORDS.tooMany(most) : "");
  });
}
