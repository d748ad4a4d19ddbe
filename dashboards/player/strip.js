// The strip of beats: a button for each, below the name of its phase. Of very many only those around
// the current one are there; if there is no room, they scroll.

import { GLYPHS, spokenBeat } from "#player/beats.js";
import { make } from "#player/dom.js";
import { named, say } from "#player/words.js";

/** @import { Model, Scene } from "#player/scene.d.ts" */
/** @import { Beat } from "#player/types.d.ts" */

/** Number of buttons shown at a time; the current one keeps away from the ends. */
export const MOST_BUTTONS = 400;
/** Of more phases than these, names do not make room for themselves. */
const MOST_NAMES = 8;

/**
 * Which beats have a button, while one of them is the current one: those around it, the same ones
 * for a while.
 * @param {number} numBeats
 * @param {number} current
 * @returns {{first: number, end: number}}
 */
export function shownBeats(numBeats, current) {
  if (numBeats <= MOST_BUTTONS) {
    return { first: 0, end: numBeats };
  }
  const half = MOST_BUTTONS / 2;
  const first = Math.max(0, Math.min(numBeats - MOST_BUTTONS, (Math.round(current / half) - 1) * half));
  return { first, end: first + MOST_BUTTONS };
}

/**
 * Phases among some beats, each with the beats of it that follow each other.
 * @param {readonly Beat[]} beats
 * @param {number} first
 * @param {number} end
 */
export function bandsOf(beats, first, end) {
  /** @type {{phase: string, first: number, end: number}[]} */
  const bands = [];
  for (let k = first; k < end; k += 1) {
    const last = bands.at(-1);
    if (last?.phase === beats[k].phase) {
      last.end = k + 1;
    } else {
      bands.push({ phase: beats[k].phase, first: k, end: k + 1 });
    }
  }
  return bands;
}

/** @param {string} phase @param {Beat} last of its beats */
function nameOf(phase, { signs }) {
  return phase !== "outside" ? named(phase) : signs.includes("end") ? say("strip.end") : "";
}

/**
 * @param {HTMLElement} host
 * @param {Model} model
 * @param {(step: number) => void} seek
 */
export function createStrip(host, model, seek) {
  const { beats } = model.doc;
  let from = -1;
  let current = -1;
  /** @type {HTMLButtonElement[]} those from `from` on */
  let buttons = [];
  /** @type {readonly number[] | null} */
  let breaks = null;
  /** @type {readonly number[] | null} */
  let marked = null;
  host.addEventListener("click", ({ target }) => {
    const button = target instanceof Element ? target.closest("button") : null;
    if (button) {
      seek(model.beatMain[Number(button.dataset.beat)]);
    }
  });

  /** @param {number} first @param {number} end */
  function fill(first, end) {
    buttons = [];
    const bands = bandsOf(beats, first, end);
    host.classList.toggle("many", bands.length > MOST_NAMES);
    const made = bands.map((band) => {
      const own = [];
      for (let k = band.first; k < band.end; k += 1) {
        own.push(buttonOf(model, k));
      }
      buttons.push(...own);
      const name = make("span", "band", nameOf(band.phase, beats[band.end - 1]));
      name.setAttribute("aria-hidden", "true"); // each button's name says it
      const phase = make("div", `phase ${band.phase}`, name, make("div", "beats", ...own));
      phase.style.flexGrow = String(own.length);
      return phase;
    });
    host.replaceChildren(...made);
    from = first;
    breaks = null;
    marked = null;
  }

  /** @param {number} beat */
  function show(beat) {
    const hadFocus = host.contains(document.activeElement);
    const { first, end } = shownBeats(beats.length, beat);
    if (first !== from) {
      fill(first, end);
    } else {
      mark(buttons[current - from], false);
    }
    current = beat;
    const button = buttons[beat - from];
    mark(button, true);
    if (hadFocus) {
      button.focus({ preventScroll: true });
    }
    const { left, width } = button.getBoundingClientRect();
    const middle = host.getBoundingClientRect().left + host.clientWidth / 2;
    if (host.scrollWidth > host.clientWidth) {
      host.scrollLeft += left + width / 2 - middle;
    }
  }

  /** Give the beats of some steps a class, and no others. @param {readonly number[]} steps @param {string} name */
  function sign(steps, name) {
    const own = new Set(steps.map((step) => model.beatOf[step]));
    for (const [i, button] of buttons.entries()) {
      button.classList.toggle(name, own.has(from + i));
    }
  }

  /** @param {Scene} scene */
  return function update({ now: { position, tween }, breakpoints, marks }) {
    const beat = model.beatOf[position];
    if (beat !== current) {
      show(beat);
    }
    if (breakpoints !== breaks) {
      breaks = breakpoints;
      sign(breakpoints, "stop");
    }
    if (marks !== marked) {
      marked = marks;
      sign(marks, "marked");
    }
    buttons[beat - from].style.setProperty("--played", String(playedOf(model, position, tween)));
  };
}

/**
 * How much of its beat has been played at a step, from 0 to 1.
 * @param {Model} model
 * @param {number} position
 * @param {number | null} tween
 */
export function playedOf({ doc, beatOf, stepMs }, position, tween) {
  const { first, last, main } = doc.beats[beatOf[position]];
  if (tween === null && position <= main) {
    return 0;
  }
  let [whole, played] = [0, 0];
  for (let k = first; k <= last; k += 1) {
    whole += stepMs[k];
    played += k < position ? stepMs[k] : k === position ? stepMs[k] * (tween ?? 0) : 0;
  }
  return played / whole;
}

/** @param {HTMLButtonElement | undefined} button @param {boolean} isCurrent */
function mark(button, isCurrent) {
  if (button) {
    button.tabIndex = isCurrent ? 0 : -1;
    if (isCurrent) {
      button.setAttribute("aria-current", "step");
    } else {
      button.removeAttribute("aria-current");
    }
  }
}

/** @param {Model} model @param {number} k */
function buttonOf(model, k) {
  const { signs, label, freed } = model.doc.beats[k];
  const button = make("button", "beat", part(signs.map((sign) => GLYPHS[sign]).join(""), label));
  if (freed.length > 0) {
    const gone = part(GLYPHS.free, freed.length === 1 ? freed[0] : "");
    gone.classList.add("gone");
    button.append(gone);
  }
  button.type = "button";
  button.tabIndex = -1;
  button.dataset.beat = String(k);
  button.setAttribute("aria-label", spokenBeat(model, k));
  button.title = spokenBeat(model, k);
  return button;
}

/** @param {string} glyphs @param {string} label */
function part(glyphs, label) {
  return make("span", "part", make("span", "signs", glyphs), make("span", "unit", label));
}
