// A lesson in its page: one step at a time, predictions, and what they uncover.

import { find, write } from "#player/dom.js";
import { focusOf } from "#player/keys.js";
import {
  bringIntoView, prepare, putAnswer, readAnswer, sayFeedback, sayMark, sayOnward, sayProblem,
} from "#player/lesson/forms.js";
import { listenToOrders } from "#player/lesson/order.js";
import { stepOf, withFields } from "#player/lesson/place.js";
import { answered, begin, loadAll, reached, save } from "#player/lesson/progress.js";
import { Replay } from "#player/lesson/replay.js";
import { listenToRuns } from "#player/lesson/running.js";
import { NoAnswer, ask, toNodes } from "#player/lesson/server.js";
import { fill, readWords } from "#player/lesson/words.js";

/** @import { Rest, Said } from "#player/lesson/server.js" */

export class LessonPage {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.id = root.dataset.lesson ?? "";
    /** Of the runs that were recorded here; "" for the committed ones. */
    this.run = root.dataset.run ?? "";
    this.words = readWords();
    this.progress = loadAll()[this.id] ?? begin();
    this.numSteps = root.querySelectorAll(".step").length;
    this.step = 0;
    this.replay = new Replay(root);
    /** Questions whose rest is in the page or on its way. @type {Set<string>} */
    this.uncovered = new Set();
  }

  start() {
    const { root } = this;
    listenToOrders(root);
    listenToRuns(root, this.id, this.words);
    root.addEventListener("submit", (event) => {
      event.preventDefault();
      if (event.target instanceof HTMLFormElement) {
        this.check(event.target);
      }
    });
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
    this.restore(root);
    this.follow();
  }

  /** Show the step that the address names, or the one that was looked at last. */
  follow() {
    const asked = stepOf(location.hash, this.numSteps);
    this.show(asked || Math.min(this.progress.step, this.numSteps));
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
      find(root, "#figures", HTMLElement).scrollTop = 0;
      scrollTo(0, 0);
    }
    find(root, "#back", HTMLButtonElement).disabled = step === 1;
    find(root, "#next", HTMLButtonElement).disabled = step === numSteps;
    const bar = find(root, "#progress", HTMLElement);
    bar.setAttribute("aria-valuenow", String(step));
    find(bar, "span", HTMLElement).style.width = `${(100 * step) / numSteps}%`;
    write(find(root, "#where", HTMLElement), fill(words.steps, { step, steps: numSteps }));
    this.keep(reached(this.progress, step, numSteps));
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
    const form = target.closest(".show-me")?.closest("form");
    if (form) {
      this.showAnswer(form);
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

  // ------------------------------------------------------------------------------ questions

  /** @param {HTMLFormElement} form */
  async check(form) {
    const question = form.dataset.question ?? "";
    const given = readAnswer(form);
    const button = find(form, "button.primary", HTMLButtonElement);
    button.disabled = true;
    write(button, this.words.checking);
    try {
      const slot = find(document, "#room-slot", HTMLElement);
      const { room = "", who = "" } = slot.dataset;
      /** @type {Said} */
      const said = await ask(`${this.api}/check`, this.words.no_server, {
        question,
        answer: given,
        ...(this.run && { run: this.run }),
        ...(room && { room, who }),
      });
      if (said.room) {
        slot.dispatchEvent(new CustomEvent("noted", { detail: said.room }));
      }
      const told = answered(this.progress.questions[question], given, said.right);
      this.keep({ ...this.progress, questions: { ...this.progress.questions, [question]: told } });
      sayFeedback(form, said.right ? "right" : "wrong", said.headline, said.words);
      if (said.right) {
        this.reveal(question, said.words);
      } else {
        sayOnward(form, told, this.words);
      }
      bringIntoView(form);
      await this.uncover(question);
    } catch (error) {
      this.tell(form, error);
    } finally {
      button.disabled = false;
      write(button, this.words.check);
    }
  }

  /** The reader gives up. @param {HTMLFormElement} form */
  async showAnswer(form) {
    const question = form.dataset.question ?? "";
    try {
      const { words } = await this.rest(question, true);
      sayFeedback(form, "shown", this.words.shown, words);
      this.reveal(question, words);
      const told = this.progress.questions[question];
      const questions = { ...this.progress.questions, [question]: { ...told, shown: true } };
      this.keep({ ...this.progress, questions });
    } catch (error) {
      this.tell(form, error);
    }
  }

  /** Put what is known of questions back into their forms. @param {HTMLElement} where */
  restore(where) {
    for (const form of where.querySelectorAll("form.ask")) {
      if (form instanceof HTMLFormElement) {
        prepare(form);
        this.restoreOne(form).catch((error) => this.tell(form, error));
      }
    }
  }

  /** @param {HTMLFormElement} form */
  async restoreOne(form) {
    const question = form.dataset.question ?? "";
    const told = this.progress.questions[question];
    if (!told) {
      return;
    }
    // What was right of another run may be wrong of this one: it is asked again, but not covered.
    if (!this.run) {
      putAnswer(form, told.given);
      if (told.right || told.shown) {
        const { words } = await this.rest(question, true);
        const headline = told.right ? this.words.right : this.words.shown;
        sayFeedback(form, told.right ? "right" : "shown", headline, words);
        this.reveal(question, words);
      }
    }
    await this.uncover(question);
  }

  /** What a question covered comes into the page. @param {string} question */
  async uncover(question) {
    if (this.uncovered.has(question)) {
      return;
    }
    this.uncovered.add(question);
    try {
      const { blocks } = await this.rest(question, false);
      for (const { id, html } of blocks) {
        const place = find(this.root, `[data-block="${id}"]`, HTMLElement);
        place.replaceChildren(...toNodes(html));
        place.classList.remove("covered");
        place.hidden = false;
        this.restore(place);
        this.revealAgain(place);
      }
      this.watch();
    } catch (error) {
      this.uncovered.delete(question);
      throw error;
    }
  }

  /** Where a step after shows a question's answer. @param {string} question @param {string} html */
  reveal(question, html) {
    for (const section of this.root.querySelectorAll(`[data-reveal="${CSS.escape(question)}"]`)) {
      find(section, ".reveal-words", HTMLElement).replaceChildren(...toNodes(html));
    }
  }

  /** An answer whose place comes after it was known. @param {HTMLElement} where */
  revealAgain(where) {
    for (const section of where.querySelectorAll("[data-reveal]")) {
      const question = section instanceof HTMLElement ? (section.dataset.reveal ?? "") : "";
      const told = this.progress.questions[question];
      if (!this.run && (told?.right || told?.shown)) {
        this.rest(question, true).then(({ words }) => this.reveal(question, words), () => {});
      }
    }
  }

  /** @param {string} question @param {boolean} explain @returns {Promise<Rest>} */
  rest(question, explain) {
    const query = new URLSearchParams({ question });
    if (explain) {
      query.set("explain", "1");
    }
    if (this.run) {
      query.set("run", this.run);
    }
    return ask(`${this.api}/rest?${query}`, this.words.no_server);
  }

  get api() {
    return `/api/lessons/${encodeURIComponent(this.id)}`;
  }

  /** @param {HTMLFormElement} form @param {unknown} error */
  tell(form, error) {
    if (!(error instanceof NoAnswer)) {
      throw error;
    }
    sayProblem(form, error.message);
  }

  /** @param {import("#player/lesson/progress.js").Progress} progress */
  keep(progress) {
    this.progress = progress;
    save(this.id, progress);
  }
}
