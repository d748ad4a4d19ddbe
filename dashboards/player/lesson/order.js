// A list that is put in order: with buttons, or dragged.

import { find } from "#player/dom.js";

/**
 * A list with one item elsewhere.
 * @template T
 * @param {readonly T[]} list
 * @param {number} from
 * @param {number} to clamped to the list
 */
export function moved(list, from, to) {
  const others = list.filter((_, at) => at !== from);
  others.splice(Math.max(0, Math.min(others.length, to)), 0, list[from]);
  return others;
}

/** @param {HTMLElement} list */
export function keysOf(list) {
  return itemsOf(list).map((item) => item.dataset.key ?? "");
}

/** @param {HTMLElement} list @param {readonly string[]} keys */
export function arrange(list, keys) {
  const items = itemsOf(list);
  const known = keys.flatMap((key) => items.find((item) => item.dataset.key === key) ?? []);
  if (known.length === items.length) {
    list.append(...known);
  }
  mark(list);
}

/** Buttons at the ends do nothing. @param {HTMLElement} list */
export function mark(list) {
  const items = itemsOf(list);
  for (const [at, item] of items.entries()) {
    find(item, "[data-move='-1']", HTMLButtonElement).disabled = at === 0;
    find(item, "[data-move='1']", HTMLButtonElement).disabled = at === items.length - 1;
  }
}

/**
 * Listen to all such lists of a page, also those that come later.
 * @param {HTMLElement} root
 */
export function listenToOrders(root) {
  /** @type {HTMLElement | null} */
  let held = null;
  root.addEventListener("click", ({ target }) => {
    const button = target instanceof Element ? target.closest("[data-move]") : null;
    const item = button?.closest("li");
    const list = item?.parentElement;
    if (button instanceof HTMLButtonElement && item && list) {
      const items = itemsOf(list);
      const at = items.indexOf(item);
      list.append(...moved(items, at, at + Number(button.dataset.move)));
      mark(list);
      (button.disabled ? find(item, "[data-move]:not(:disabled)", HTMLButtonElement) : button).focus();
    }
  });
  root.addEventListener("dragstart", ({ target }) => {
    held = target instanceof HTMLElement ? target.closest(".order > li") : null;
    held?.classList.add("held");
  });
  root.addEventListener("dragover", (event) => {
    const over = event.target instanceof Element ? event.target.closest(".order > li") : null;
    const list = held?.parentElement;
    if (held && list && over?.parentElement === list) {
      event.preventDefault();
      const items = itemsOf(list);
      const to = items.findIndex((item) => item === over);
      if (over !== held) {
        list.append(...moved(items, items.indexOf(held), to));
        mark(list);
      }
    }
  });
  root.addEventListener("drop", (event) => held && event.preventDefault());
  root.addEventListener("dragend", () => {
    held?.classList.remove("held");
    held = null;
  });
}

/** @param {HTMLElement} list @returns {HTMLElement[]} */
function itemsOf(list) {
  return [...list.children].filter((item) => item instanceof HTMLElement);
}
