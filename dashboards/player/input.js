// Listens: to keys, to buttons, to the settings, to the address and to the system.

import { find } from "#player/dom.js";
import { actionOf, focusOf } from "#player/keys.js";
import { wantsStill, watchSystem } from "#player/theme.js";

/** @import { Actions } from "#player/actions.js" */
/** The listener: a page that shows a place.
 *  @typedef {object} Listener
 *  @property {HTMLElement} root
 *  @property {boolean | null} still no motion; null: as the system wants it
 *  @property {(part: object) => void} change
 *  @property {() => void} follow */

/**
 * @param {Listener} player
 * @param {Actions} actions
 */
export function listen(player, actions) {
  const { root } = player;
  const letters = find(root, "#set-keys", HTMLInputElement);
  document.addEventListener("keydown", (event) => {
    const action = actionOf(event, focusOf(event.target), letters.checked);
    if (action && action in actions) {
      event.preventDefault();
      actions[action](event.key);
    }
  });
  root.addEventListener("click", ({ target }) => {
    const button = target instanceof Element ? target.closest("[data-action]") : null;
    if (button instanceof HTMLElement) {
      actions[button.dataset.action ?? ""]?.("");
    }
  });
  const still = find(root, "#set-still", HTMLInputElement);
  still.checked = wantsStill();
  still.addEventListener("change", () => {
    player.still = still.checked;
    player.change({});
  });
  watchSystem(() => player.change({}));
  closeOnBackdrop(root);
  releaseFocus(root);
}

/** A click beside a dialog closes it. @param {HTMLElement} root */
function closeOnBackdrop(root) {
  for (const dialog of root.querySelectorAll("dialog")) {
    dialog.addEventListener("click", ({ target }) => {
      if (target === dialog) {
        dialog.close();
      }
    });
  }
}

/**
 * An element used with a pointer returns the keys to the page: a presenter clicks, then types.
 * @param {HTMLElement} root
 */
function releaseFocus(root) {
  let byPointer = false;
  document.addEventListener("keydown", () => (byPointer = false), true);
  root.addEventListener("pointerdown", () => (byPointer = true), true);
  /** @param {Event} event @param {string} selector */
  const release = ({ target }, selector) => {
    const control = target instanceof Element ? target.closest(selector) : null;
    if (byPointer && control instanceof HTMLElement && !control.closest("dialog")) {
      control.blur();
    }
  };
  root.addEventListener("click", (event) => release(event, "button"));
  root.addEventListener("change", (event) => release(event, "select"));
}
