// A lesson in its page: one step at a time, predictions, and the parts that they uncover.

import { find, write } from "#player/dom.js";
import { focusOf } from "#player/keys.js";
import { sayMark } from "#player/lesson/forms.js";
import { listenToOrders } from "#player/lesson/order.js";
import { stepOf, withFields } from "#player/lesson/place.js";
import { reached } from "#player/lesson/progress.js";
import { Questions } from "#player/lesson/questions.js";
import { Replay } from "#player/lesson/replay.js";
import { listenToRuns } from "#player/lesson/running.js";
import { fill, readWords } from "#player/lesson/words.js";

export class LessonPage {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.words = readWords();
    this.questions = new Questions(root, this.words, () => this.watch());
    this.numSteps = root.querySelectorAll(".step").length;
    this.step = 0;
    this.replay = new Replay(root);
  }

  start() {
    const { root } = this;
    listenToOrders(root);
    listenToRuns(root, this.questions.id, this.words);
    root.addEventListener("input", ({ target }) => {
      if (target instanceof HTMLInputElement && target.type === "range" && target.form) {
        sayMark(target.form);
      }
    });
    root.addEventListener("click", ({ target }) => this.clicked(target));
    document.addEventListener("keydown", (event) => this.pressed(event));
    addEventListener("hashchange", () => this.follow());
    find(root, "#back", HTMLButtonElement).addEventListener("click", () => this.go(this.step - 1));
    find(root, "#next", HTMLButtonElement).addEventListener("click", () => this.go(this.step + 1));
    this.questions.start();
    this.follow();
  }

  /** Show the step that the address names, or the one that was looked at last. */
  follow() {
    const asked = stepOf(location.hash, this.numSteps);
    this.show(asked || Math.min(this.questions.progress.step, this.numSteps));
  }

  /** @param {number} step */
  go(step) {
    if (step >= 1 && step <= this.numSteps) {
      history.pushState(history.state, "", withFields(location.hash, { step: String(step) }));
      this.show(step);
    }
  }

  /** @param {number} step */
  show(step) {
    const { root, numSteps, words } = this;
    const isNew = step !== this.step;
    this.step = step;
    for (const part of root.querySelectorAll("[data-step]")) {
      if (part instanceof HTMLElement) {
        part.hidden = Number(part.dataset.step) !== step;
      }
    }
    if (isNew) {
      find(root, "#text", HTMLElement).scrollTop = 0;
      find(root, "#seen", HTMLElement).scrollTop = 0;
      scrollTo(0, 0);
    }
    find(root, "#back", HTMLButtonElement).disabled = step === 1;
    find(root, "#next", HTMLButtonElement).disabled = step === numSteps;
    const bar = find(root, "#progress", HTMLElement);
    bar.setAttribute("aria-valuenow", String(step));
    find(bar, "span", HTMLElement).style.width = `${(100 * step) / numSteps}%`;
    write(find(root, "#where", HTMLElement), fill(words.steps, { step, steps: numSteps }));
    this.questions.keep(reached(this.questions.progress, step, numSteps));
    this.watch();
  }

  /** Show the replay of this step, or the one that was there before. */
  watch() {
    const buttons = [...this.root.querySelectorAll("[data-replay]")].filter((button) => {
      const at = button.closest("[data-step]");
      return at instanceof HTMLElement && Number(at.dataset.step) <= this.step;
    });
    const last = buttons.at(-1);
    const shown = last instanceof HTMLElement ? last.dataset : {};
    this.replay.show(shown.replay ?? "", shown.title ?? "");
  }

  /** @param {EventTarget | null} target */
  clicked(target) {
    if (!(target instanceof Element)) {
      return;
    }
    const place = target.closest("[data-replay]");
    if (place instanceof HTMLElement) {
      this.replay.show(place.dataset.replay ?? "", place.dataset.title ?? "", true);
    }
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    const focus = focusOf(event.target);
    const isLine = event.target instanceof HTMLInputElement && event.target.type === "text";
    const isOurs = focus === "page" || focus === "button" || focus === "scroll" || isLine;
    if (event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || !isOurs) {
      return;
    }
    const hasPages = focus !== "scroll"; // a line of text has no use for them, a clicker has
    const hasArrows = !isLine;
    if ((event.key === "ArrowRight" && hasArrows) || (event.key === "PageDown" && hasPages)) {
      event.preventDefault();
      this.go(this.step + 1);
    } else if ((event.key === "ArrowLeft" && hasArrows) || (event.key === "PageUp" && hasPages)) {
      event.preventDefault();
      this.go(this.step - 1);
    }
  }
}
