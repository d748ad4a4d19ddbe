// Listens: to keys, to buttons, to the address, to the system and to the size of the window.

import { find, make } from "#player/dom.js";
import { createActions } from "#player/graph/actions.js";
import { KEYS, actionOf } from "#player/graph/keys.js";
import { watchSystem } from "#player/theme.js";

/** @import { Action } from "#player/graph/keys.js" */
/** @import { GraphPage } from "#player/graph/page.js" */

/** @param {GraphPage} page */
export function listen(page) {
  const { root } = page;
  const actions = createActions(page);
  document.addEventListener("keydown", (event) => {
    const action = actionOf(event);
    if (action) {
      event.preventDefault();
      actions[action]();
    }
  });
  root.addEventListener("click", ({ target }) => {
    const button = target instanceof Element ? target.closest("[data-action]") : null;
    if (button instanceof HTMLElement) {
      actions[/** @type {Action} */ (button.dataset.action)]();
    }
  });
  const help = find(root, "#help-dialog", HTMLDialogElement);
  help.addEventListener("click", ({ target }) => target === help && help.close());
  find(root, "#help-keys", HTMLElement).append(
    ...KEYS.filter(({ shown }) => shown).map(({ shown, does }) =>
      make("div", "", make("dt", "", make("kbd", "", shown)), make("dd", "", does)),
    ),
  );
  watchSystem(() => page.change({}));
  new ResizeObserver(() => page.ask()).observe(page.view.host);
}
