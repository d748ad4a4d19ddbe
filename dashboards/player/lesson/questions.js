// The questions of a lesson: feedback on answers, and the parts of the page that they uncover.

import { find, write } from "#player/dom.js";
import {
  bringIntoView, givenWords, prepare, putAnswer, readAnswer, sayFeedback, sayHeld, sayOnward, sayProblem,
} from "#player/lesson/forms.js";
import { answered, begin, isSettled, loadAll, noted, save } from "#player/lesson/progress.js";
import { NoAnswer, ask, toNodes } from "#player/lesson/server.js";
import { fill } from "#player/lesson/words.js";

/** @import { Told } from "#player/lesson/progress.js" */
/** @import { Explained, Rest, Said, Verdict } from "#player/lesson/server.js" */
/** @import { Words } from "#player/lesson/words.js" */

export class Questions {
  /**
   * @param {HTMLElement} root
   * @param {Words} words
   * @param {() => void} onUncover something has come into the page
   */
  constructor(root, words, onUncover) {
    this.root = root;
    this.words = words;
    this.onUncover = onUncover;
    this.id = root.dataset.lesson ?? "";
    /** Of the runs that were recorded here; "" for the committed ones. */
    this.run = root.dataset.run ?? "";
    this.progress = loadAll()[this.id] ?? begin();
    /** The reader's room, if any. */
    this.slot = find(document, "#room-slot", HTMLElement);
    /** Answers of the room that are just being judged. @type {Set<string>} */
    this.released = new Set();
  }

  start() {
    this.slot.addEventListener("room", () => this.release());
    this.root.addEventListener("submit", (event) => {
      event.preventDefault();
      if (event.target instanceof HTMLFormElement) {
        this.check(event.target);
      }
    });
    this.root.addEventListener("click", ({ target }) => {
      const form = target instanceof Element ? target.closest(".show-me")?.closest("form") : null;
      if (form) {
        this.showAnswer(form);
      }
    });
    this.restore(this.root);
    this.uncover(false).catch((error) => this.failToUncover(error));
  }

  /** @param {HTMLFormElement} form */
  async check(form) {
    const question = form.dataset.question ?? "";
    const given = readAnswer(form);
    const button = find(form, "button.primary", HTMLButtonElement);
    button.disabled = true;
    write(button, this.words.checking);
    try {
      const { room = "", who = "" } = this.slot.dataset;
      /** @type {Said} */
      const said = await this.judge(question, given, room ? { room, who } : {});
      if ("room" in said && said.room) {
        this.slot.dispatchEvent(new CustomEvent("noted", { detail: said.room }));
      }
      if ("problem" in said) {
        sayProblem(form, said.problem);
      } else if ("held" in said) {
        this.tell(question, noted(this.progress.questions[question], given));
        sayHeld(form, this.words);
        this.release(); // the class may have seen the right answer in the meantime
      } else {
        await this.take(form, given, said);
      }
      bringIntoView(form);
    } catch (error) {
      this.fail(form, error);
    } finally {
      button.disabled = false;
      write(button, this.words.check);
    }
  }

  /**
   * @param {string} question
   * @param {string | string[]} given
   * @param {{room?: string, who?: string}} where the room in which it counts
   * @returns {Promise<Said>}
   */
  judge(question, given, where) {
    const run = this.run && { run: this.run };
    return ask(`${this.api}/check`, this.words.no_server, { question, answer: given, ...run, ...where });
  }

  /** An answer is right or wrong. @param {HTMLFormElement} form @param {string | string[]} given @param {Verdict} said */
  async take(form, given, said) {
    const question = form.dataset.question ?? "";
    const told = answered(this.progress.questions[question], given, said.right);
    this.tell(question, told);
    sayFeedback(form, said.right ? "right" : "wrong", said.headline, said.words);
    if (said.right) {
      this.reveal(question, said.words);
      await this.uncover(true);
    } else {
      sayOnward(form, told, this.words);
    }
  }

  /** The class has seen the right answer, or the room is left: held answers are judged. */
  async release() {
    const { place, told = "" } = this.slot.dataset;
    const shown = new Set(told.split(" "));
    for (const [question, { held, given }] of Object.entries(this.progress.questions)) {
      const form = this.formOf(question);
      const isTold = place === "out" || shown.has(`${this.id}/${question}`);
      if (held && form && isTold && !this.released.has(question)) {
        this.released.add(question);
        try {
          const said = await this.judge(question, given, {});
          if ("right" in said) {
            await this.take(form, given, said);
          }
        } catch (error) {
          this.fail(form, error);
        } finally {
          this.released.delete(question);
        }
      }
    }
  }

  /** The reader gives up. @param {HTMLFormElement} form */
  async showAnswer(form) {
    const question = form.dataset.question ?? "";
    try {
      const { words } = await this.explain(question);
      sayFeedback(form, "shown", this.words.shown, words);
      this.reveal(question, words);
      this.tell(question, { ...this.progress.questions[question], shown: true });
      await this.uncover(true);
    } catch (error) {
      this.fail(form, error);
    }
  }

  /** Restore the state of questions in their forms. @param {HTMLElement} where */
  restore(where) {
    for (const form of where.querySelectorAll("form.ask")) {
      if (form instanceof HTMLFormElement) {
        prepare(form);
        this.restoreOne(form).catch((error) => this.fail(form, error));
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
    putAnswer(form, told.given);
    if (this.run) { // an answer that was right for another run may be wrong here
      if (isSettled(told) && !told.held) {
        const { words } = await this.explain(question);
        sayFeedback(form, "shown", fill(this.words.yours, { given: givenWords(form, told.given) }), words);
        this.reveal(question, words);
      }
      return;
    }
    if (told.held) {
      sayHeld(form, this.words);
      await this.release();
    } else if (isSettled(told)) {
      const { words } = await this.explain(question);
      sayFeedback(form, told.right ? "right" : "shown", told.right ? this.words.right : this.words.shown, words);
      this.reveal(question, words);
    }
  }

  /**
   * Insert the parts covered by settled questions; remaining covers show their number.
   * @param {boolean} isNew it was settled just now, and what comes is looked for
   */
  async uncover(isNew) {
    const { questions } = this.progress;
    const isOpen = (/** @type {string} */ question) => !isSettled(questions[question]);
    const covered = [...this.root.querySelectorAll(".covered")].filter((one) => one instanceof HTMLElement);
    for (const cover of covered) {
      const num = questionsOf(cover).filter(isOpen).length;
      const words = num === 1 ? this.words.covered_one : this.words.covered_other;
      for (const place of cover.querySelectorAll(".cover p")) {
        write(place, fill(words, { num }));
      }
    }
    const known = [...new Set(covered.flatMap(questionsOf))];
    const settled = known.filter((question) => !isOpen(question));
    if (!covered.some((cover) => !questionsOf(cover).some(isOpen))) {
      return;
    }
    /** @type {Rest} */
    const { blocks } = await this.get("rest", settled.map((question) => ["settled", question]));
    for (const { id, html } of blocks) {
      const place = find(this.root, `[data-block="${id}"]`, HTMLElement);
      if (place.classList.contains("covered")) {
        place.replaceChildren(...toNodes(html));
        place.classList.remove("covered");
        place.hidden = false;
        this.restore(place);
        this.revealAgain(place);
      }
    }
    if (isNew) {
      this.root.querySelector(".step-figures:not([hidden])")?.scrollIntoView({ block: "nearest" });
    }
    this.onUncover();
  }

  /** @param {unknown} error */
  failToUncover(error) {
    if (!(error instanceof NoAnswer)) {
      throw error;
    }
    for (const place of this.root.querySelectorAll(".cover p")) {
      write(place, error.message);
    }
  }

  /** Where a step after shows a question's answer. @param {string} question @param {string} html */
  reveal(question, html) {
    for (const section of this.root.querySelectorAll(`[data-reveal="${CSS.escape(question)}"]`)) {
      find(section, ".reveal-words", HTMLElement).replaceChildren(...toNodes(html));
    }
  }

  /** An answer known before its place exists. @param {HTMLElement} where */
  revealAgain(where) {
    for (const section of where.querySelectorAll("[data-reveal]")) {
      const question = section instanceof HTMLElement ? (section.dataset.reveal ?? "") : "";
      if (isSettled(this.progress.questions[question])) {
        this.explain(question).then(({ words }) => this.reveal(question, words), () => {});
      }
    }
  }

  /** Why the right answer is right. @param {string} question @returns {Promise<Explained>} */
  explain(question) {
    return this.get("explain", [["question", question]]);
  }

  /** @param {string} what @param {string[][]} fields @returns {Promise<any>} */
  get(what, fields) {
    const query = new URLSearchParams([...fields, ...(this.run ? [["run", this.run]] : [])]);
    return ask(`${this.api}/${what}?${query}`, this.words.no_server);
  }

  get api() {
    return `/api/lessons/${encodeURIComponent(this.id)}`;
  }

  /** @param {string} question */
  formOf(question) {
    const form = this.root.querySelector(`form[data-question="${CSS.escape(question)}"]`);
    return form instanceof HTMLFormElement ? form : null;
  }

  /** @param {HTMLFormElement} form @param {unknown} error */
  fail(form, error) {
    if (!(error instanceof NoAnswer)) {
      throw error;
    }
    sayProblem(form, error.message);
  }

  /** Store the state of a question. @param {string} question @param {Told} told */
  tell(question, told) {
    this.keep({ ...this.progress, questions: { ...this.progress.questions, [question]: told } });
  }

  /** @param {import("#player/lesson/progress.js").Progress} progress */
  keep(progress) {
    this.progress = progress;
    save(this.id, progress);
  }
}

/** The questions to settle before a place is uncovered. @param {HTMLElement} cover */
function questionsOf(cover) {
  return (cover.dataset.after ?? "").split(" ");
}
