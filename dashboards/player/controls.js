// The transport's own state on screen: the play button, the beat's number, the breakpoint button, and
// the list of speeds.

import { SPEEDS } from "#player/clock.js";
import { fillSelect, find, setPressed, write } from "#player/dom.js";
import { formatTime, joinDots } from "#player/format.js";

import { NO_STOP, nameOfStop } from "#player/tour.js";
import { say } from "#player/words.js";

/** @import { Scene } from "#player/scene.d.ts" */

/**
 * @typedef {object} Wishes
 * @property {(speed: number) => void} setSpeed
 * @property {(rank: number) => void} selectRank
 */

/**
 * @param {HTMLElement} root
 * @param {import("#player/scene.d.ts").Model} model
 * @param {Wishes} wishes
 */
export function createControls(root, model, wishes) {
  const { doc, numSteps, beatOf } = model;
  const play = find(root, "#play", HTMLButtonElement);
  const event = find(root, "#event", HTMLElement);
  const stops = root.querySelectorAll(".stop-word");
  const here = find(root, "#break", HTMLButtonElement);
  const all = find(root, "#breaks", HTMLButtonElement);
  const speed = find(root, "#speed", HTMLSelectElement);
  const rank = find(root, "#rank", HTMLSelectElement);
  fillSelect(speed, SPEEDS.map((one) => [String(one), `${one}×`]));
  fillSelect(rank, doc.ranks.map((global, at) => [String(at), say("shared.rank", { rank: global })]));
  speed.addEventListener("change", () => wishes.setSpeed(Number(speed.value)));
  rank.addEventListener("change", () => wishes.selectRank(Number(rank.value)));
  let shown = "";

  /** @param {Scene} scene @param {{playing: boolean, speed: number, numBreakpoints: number}} state */
  return function update(scene, state) {
    const { position, hops, tour } = scene;
    const key = `${position} ${hops} ${tour}`;
    if (key !== shown) {
      shown = key;
      const beat = say("shared.beat_of", { beat: beatOf[position] + 1, beats: doc.beats.length });
      const step = hops ? say("shared.step_of", { step: position + 1, steps: numSteps }) : "";
      const time = say("controls.at", { time: formatTime(doc.steps[position].time_ns, doc.run.is_predicted) });
      write(event, tour === NO_STOP ? joinDots([beat, step, time]) : nameOfStop(model, tour));
      setPressed(root, "#hops", hops);
      setPressed(root, "#tour", tour !== NO_STOP);
      stops.forEach((word) => write(word, tour !== NO_STOP ? say("controls.stop") : hops ? say("controls.hop") : say("controls.beat")));
    }
    play.classList.toggle("playing", state.playing);
    play.setAttribute("aria-label", state.playing ? say("controls.pause") : say("controls.play"));
    here.setAttribute("aria-pressed", String(scene.breakpoints.includes(position)));
    write(all, state.numBreakpoints > 0 ? say("controls.breaks", { num_breakpoints: state.numBreakpoints }) : say("controls.breaks_2"));
    speed.value = String(state.speed);
    rank.value = String(scene.rank);
  };
}
