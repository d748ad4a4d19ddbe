// The slides of a lesson: one at a time, by keys, a clicker or a click; the address keeps the place.

import { focusOf } from "#player/keys.js";
import { withFields } from "#player/lesson/place.js";

/** @type {Record<string, number>} how far each key goes */
const TURNS = { ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, Enter: 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1 };

class Slides {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.slides = [...root.querySelectorAll(".slide")];
    this.now = 0;
  }

  start() {
    this.root.dataset.ready = "";
    addEventListener("hashchange", () => this.follow());
    document.addEventListener("keydown", (event) => this.pressed(event));
    this.follow();
  }

  /** Show the slide that the address names. */
  follow() {
    const asked = Number(new URLSearchParams(location.hash.slice(1)).get("slide"));
    this.show(Number.isInteger(asked) && asked > 0 ? asked - 1 : 0);
  }

  /** @param {number} wanted */
  show(wanted) {
    this.now = Math.max(0, Math.min(this.slides.length - 1, wanted));
    for (const [at, slide] of this.slides.entries()) {
      slide.classList.toggle("shown", at === this.now);
    }
  }

  /** @param {number} wanted */
  go(wanted) {
    this.show(wanted);
    history.replaceState(history.state, "", withFields(location.hash, { slide: String(this.now + 1) }));
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || focusOf(event.target) !== "page") {
      return;
    }
    const turn = TURNS[event.key];
    if (turn) {
      this.go(this.now + turn);
    } else if (event.key === "Home" || event.key === "End") {
      this.go(event.key === "Home" ? 0 : this.slides.length);
    } else if (event.key === "n") {
      document.documentElement.toggleAttribute("data-notes");
    } else if (event.key === "f") {
      void (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen());
    } else {
      return;
    }
    event.preventDefault();
  }
}

const root = document.getElementById("slides");
if (root) {
  new Slides(root).start();
}
