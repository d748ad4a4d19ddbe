// The transport's own state on screen: the play button, the scrubber's handle, the step's number,
// the breakpoint button, and the list of speeds.

import { SPEEDS } from "#player/clock.js";
import { fillSelect, find, write } from "#player/dom.js";
import { formatDuration, joinDots } from "#player/format.js";

/** @import { Scene } from "#player/scene.d.ts" */

/**
 * @typedef {object} Wishes
 * @property {(step: number) => void} seek
 * @property {(speed: number) => void} setSpeed
 * @property {(rank: number) => void} selectRank
 */

/**
 * @param {HTMLElement} root
 * @param {import("#player/scene.d.ts").Model} model
 * @param {Wishes} wishes
 */
export function createControls(root, model, wishes) {
  const { doc, numSteps, lastStep } = model;
  const play = find(root, "#play", HTMLButtonElement);
  const seek = find(root, "#seek", HTMLInputElement);
  const event = find(root, "#event", HTMLElement);
  const here = find(root, "#break", HTMLButtonElement);
  const all = find(root, "#breaks", HTMLButtonElement);
  const speed = find(root, "#speed", HTMLSelectElement);
  const rank = find(root, "#rank", HTMLSelectElement);
  seek.max = String(lastStep + 1);
  fillSelect(speed, SPEEDS.map((one) => [String(one), `${one}×`]));
  fillSelect(rank, doc.ranks.map((global, at) => [String(at), `rank ${global}`]));
  seek.addEventListener("input", () => wishes.seek(Number(seek.value) - 1));
  speed.addEventListener("change", () => wishes.setSpeed(Number(speed.value)));
  rank.addEventListener("change", () => wishes.selectRank(Number(rank.value)));
  let shown = -1;

  /** @param {Scene} scene @param {{playing: boolean, speed: number, numBreakpoints: number}} state */
  return function update(scene, state) {
    const { position } = scene;
    if (position !== shown) {
      shown = position;
      const step = doc.steps[position];
      const number = `${position + 1} / ${numSteps}`;
      write(event, joinDots([`step ${number}`, formatDuration(step.time_ns)]));
      seek.value = String(position + 1);
      seek.setAttribute("aria-valuetext", `step ${position + 1} of ${numSteps}: ${doc.texts[step.title]}`);
    }
    play.classList.toggle("playing", state.playing);
    play.setAttribute("aria-label", state.playing ? "Pause" : "Play");
    here.setAttribute("aria-pressed", String(scene.breakpoints.includes(position)));
    write(all, state.numBreakpoints > 0 ? `breaks · ${state.numBreakpoints}` : "breaks");
    speed.value = String(state.speed);
    rank.value = String(scene.rank);
  };
}
