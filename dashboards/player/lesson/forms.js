// A question's form: its answer, and the feedback.

import { find, make } from "#player/dom.js";
import { arrange, keysOf, mark } from "#player/lesson/order.js";
import { ENOUGH } from "#player/lesson/progress.js";
import { toNodes } from "#player/lesson/server.js";

/** @import { Told } from "#player/lesson/progress.js" */
/** @import { Words } from "#player/lesson/words.js" */

/**
 * The answer currently in a form; "" if there is none.
 * @param {HTMLFormElement} form
 * @returns {string | string[]}
 */
export function readAnswer(form) {
  switch (form.dataset.kind) {
    case "order":
      return keysOf(find(form, ".order", HTMLElement));
    case "mark":
      return optionAt(form)?.value ?? "";
    default:
      return String(new FormData(form).get("answer") ?? "").trim();
  }
}

/**
 * Put an answer back into a form.
 * @param {HTMLFormElement} form
 * @param {string | string[]} given
 */
export function putAnswer(form, given) {
  const one = String(given);
  if (form.dataset.kind === "order") {
    arrange(find(form, ".order", HTMLElement), Array.isArray(given) ? given : [given]);
  } else if (form.dataset.kind === "mark") {
    const at = [...form.querySelectorAll("option")].findIndex((option) => option.value === one);
    if (at >= 0) {
      find(form, "input", HTMLInputElement).value = String(at);
      sayMark(form);
    }
  } else if (form.dataset.kind === "number") {
    find(form, "input", HTMLInputElement).value = one;
  } else {
    for (const input of form.querySelectorAll("input")) {
      input.checked = input.value === one;
    }
  }
}

/** Make a form ready that has just come into the page. @param {HTMLFormElement} form */
export function prepare(form) {
  if (form.dataset.kind === "order") {
    mark(find(form, ".order", HTMLElement));
  }
}

/** Name the moment that a slider points to. @param {HTMLFormElement} form */
export function sayMark(form) {
  const label = optionAt(form)?.textContent ?? "";
  find(form, "input", HTMLInputElement).setAttribute("aria-valuetext", label);
  find(form, "output", HTMLOutputElement).textContent = label;
}

/** @param {HTMLFormElement} form */
function optionAt(form) {
  return form.querySelectorAll("option")[Number(find(form, "input", HTMLInputElement).value)];
}

/**
 * Show the feedback on an answer.
 * @param {HTMLFormElement} form
 * @param {"right" | "wrong" | "shown"} how
 * @param {string} headline
 * @param {string} html
 */
export function sayFeedback(form, how, headline, html) {
  const box = make("div", `said ${how}`, make("p", "said-headline", headline));
  box.append(...toNodes(html));
  find(form, ".feedback", HTMLElement).replaceChildren(box);
}

/** An answer is noted, and it is not told yet whether it is right. @param {HTMLFormElement} form @param {Words} words */
export function sayHeld(form, words) {
  const box = make("div", "said held", make("p", "said-headline", words.held), make("p", "", words.held_words));
  find(form, ".feedback", HTMLElement).replaceChildren(box);
}

/** So that a screen reader reads the feedback. @param {HTMLFormElement} form */
export function bringIntoView(form) {
  find(form, ".feedback", HTMLElement).scrollIntoView({ block: "nearest" });
}

/** Show an error in one line. @param {HTMLFormElement} form @param {string} line */
export function sayProblem(form, line) {
  const box = make("p", "said problem", line);
  find(form, ".feedback", HTMLElement).replaceChildren(box);
}

/**
 * After a wrong answer: the next options.
 * @param {HTMLFormElement} form
 * @param {Told} told
 * @param {Words} words
 */
export function sayOnward(form, told, words) {
  const box = form.querySelector(".said");
  if (told.wrong >= ENOUGH && !told.shown) {
    const button = make("button", "show-me", words.show_me);
    button.type = "button";
    box?.append(button);
  } else {
    box?.append(make("p", "small", words.again));
  }
}

/**
 * An answer as displayed: the words of the choice, or the number with its unit.
 * @param {HTMLFormElement} form
 * @param {string | string[]} given
 */
export function givenWords(form, given) {
  const keys = typeof given === "string" ? [given] : given;
  return keys.map((key) => {
    const name = CSS.escape(key);
    const chosen = form.querySelector(`li[data-key="${name}"] .order-label, option[value="${name}"]`) ?? form.querySelector(`input[type=radio][value="${name}"]`)?.closest("label");
    return chosen?.textContent?.trim() ?? [key, form.querySelector(".unit")?.textContent?.trim()].filter(Boolean).join(" ");
  }).join(" → ");
}
