// The dialogs: breakpoints, help with its settings, and the run's description.

import { GLYPHS, MEANINGS, NAMES, signsIn } from "#player/beats.js";
import { STEP_KINDS, describeBreakpoint, unitName } from "#player/breakpoints.js";
import { fillSelect, find, make } from "#player/dom.js";
import { KEYS } from "#player/keys.js";
import { named, say } from "#player/words.js";

/** @import { Breakpoint } from "#player/breakpoints.js" */
/** @import { Model } from "#player/scene.d.ts" */

/**
 * @param {HTMLElement} root
 * @param {"run" | "breaks" | "take" | "help"} name
 */
export function openDialog(root, name) {
  const dialog = find(root, `#${name}-dialog`, HTMLDialogElement);
  if (!dialog.open) {
    dialog.showModal();
    // from its first line on; the browser would scroll to its first button
    dialog.querySelector("h2")?.focus();
  }
}

/**
 * @param {HTMLElement} root
 * @param {import("#player/actions.js").Actions} actions of the page
 * @param {Readonly<Record<string, string>>} [words] the meaning of an action here, if it is not the usual one
 */
export function fillHelp(root, actions, words = {}) {
  const list = find(root, "#help-keys", HTMLElement);
  for (const { shown, action, does: usual } of KEYS) {
    const does = words[action] ?? usual;
    if (shown && action in actions) {
      list.append(make("div", "", make("dt", "", make("kbd", "", shown)), make("dd", "", does)));
    }
  }
}

/** The signs of the strip, in the help. @param {HTMLElement} root @param {Model} model */
export function fillSigns(root, { doc }) {
  const entries = signsIn(doc).map((sign) => make("div", "", make("dt", "", GLYPHS[sign]), make("dd", "", MEANINGS[sign])));
  find(root, "#help-signs", HTMLElement).append(...entries);
  find(root, "#help-signs-part", HTMLElement).hidden = false;
  find(root, "#signs", HTMLElement).append(...signsIn(doc).map((sign) => make("li", "", make("strong", "", GLYPHS[sign]), ` ${NAMES[sign]}`)));
}

/**
 * @param {HTMLElement} root
 * @param {Model} model
 * @param {(breakpoints: Breakpoint[]) => void} changed
 */
export function createBreakpointDialog(root, model, changed) {
  const form = find(root, "#breaks-form", HTMLFormElement);
  const list = find(root, "#breaks-list", HTMLElement);
  const { doc } = model;
  const ops = doc.collectives.map((collective) => collective.op);
  const present = new Set(doc.steps.map((step) => step.kind));
  const kinds = STEP_KINDS.filter((kind) => present.has(/** @type {any} */ (kind)));
  const units = doc.steps.map((step) => unitName(model, step)).filter(Boolean);
  choose(form, "kind", [...kinds, ...new Set(ops)]);
  choose(form, "unit", [...new Set(units)]);
  choose(form, "rank", doc.ranks.map(String));
  /** @type {readonly Breakpoint[]} */
  let current = [];

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const data = new FormData(form);
    /** @param {string} name */
    const value = (name) => String(data.get(name) ?? "");
    /** @type {Breakpoint} */
    const breakpoint = {};
    for (const name of /** @type {const} */ (["kind", "unit"])) {
      if (value(name)) {
        breakpoint[name] = value(name);
      }
    }
    for (const name of /** @type {const} */ (["rank", "bytes"])) {
      if (value(name)) {
        breakpoint[name] = Number(value(name));
      }
    }
    if (Object.keys(breakpoint).length > 0) {
      form.reset();
      changed([...current, breakpoint]);
    }
  });

  /** @param {readonly Breakpoint[]} breakpoints */
  return function update(breakpoints) {
    if (breakpoints === current) {
      return;
    }
    current = breakpoints;
    list.replaceChildren(
      ...breakpoints.map((breakpoint, at) => {
        const text = describeBreakpoint(breakpoint);
        const remove = make("button", "", say("dialogs.remove"));
        remove.type = "button";
        remove.setAttribute("aria-label", say("dialogs.remove_2", { text }));
        remove.addEventListener("click", () => changed(current.filter((_, other) => other !== at)));
        return make("li", "", make("span", "", text), remove);
      }),
    );
  };
}

/** @param {HTMLFormElement} form @param {string} name @param {readonly string[]} values */
function choose(form, name, values) {
  const select = find(form, `[name=${name}]`, HTMLSelectElement);
  fillSelect(select, [["", say("dialogs.any")], ...values.map((value) => /** @type {const} */ ([value, named(value)]))]);
}
