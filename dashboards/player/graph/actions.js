// The actions of the Graph page's keys and buttons.

import { openDialog } from "#player/dialogs.js";
import { switchLanguage } from "#player/language.js";
import { replayAddress } from "#player/graph/address.js";
import { across, along, alongPath, toEnd } from "#player/graph/walk.js";
import { effectiveTheme, storeTheme } from "#player/theme.js";

/** @import { Action } from "#player/graph/keys.js" */
/** @import { GraphPage } from "#player/graph/page.js" */

const PAN = 0.2;
const ZOOM = 0.7;

/** @param {GraphPage} page @returns {Record<Action, () => void>} */
export function createActions(page) {
  const { view, model, root } = page;
  /** From the selected event, or to the first one that passes. @param {(node: number) => number} step */
  const walk = (step) => {
    const { selected } = page.place;
    page.select(selected >= 0 ? step(selected) : page.passed.indexOf(1));
  };
  const withMessages = () => view.lanes?.messages ?? false;
  return {
    next: () => walk((node) => along(model, page.passed, node, 1)),
    previous: () => walk((node) => along(model, page.passed, node, -1)),
    up: () => walk((node) => across(model, page.passed, node, -1, withMessages())),
    down: () => walk((node) => across(model, page.passed, node, 1, withMessages())),
    first: () => walk((node) => toEnd(model, page.passed, node, -1)),
    last: () => walk((node) => toEnd(model, page.passed, node, 1)),
    pathNext: () => page.select(alongPath(model, page.place.selected, 1)),
    pathPrevious: () => page.select(alongPath(model, page.place.selected, -1)),
    panRight: () => view.pan(PAN),
    panLeft: () => view.pan(-PAN),
    zoomIn: () => view.zoom(ZOOM, middle(page)),
    zoomOut: () => view.zoom(1 / ZOOM, middle(page)),
    fit: () => view.fit(),
    replay: () => {
      const { selected } = page.place;
      const address = selected < 0 ? null : replayAddress(model, selected, page.place);
      if (address && !("embed" in document.documentElement.dataset)) {
        location.assign(address);
      }
    },
    clear: () => page.select(-1),
    critical: () => {
      if (model.doc.path) {
        page.filter({ critical: !page.place.filter.critical });
      }
    },
    waits: () => page.filter({ waits: !page.place.filter.waits }),
    theme: () => {
      const theme = effectiveTheme(page.place.theme) === "dark" ? "light" : "dark";
      storeTheme(theme);
      page.change({ theme });
    },
    present: () => page.change({ present: !page.place.present }),
    language: switchLanguage,
    help: () => openDialog(root, "help"),
  };
}

/** The center of zooming with keys: the selected event if it is in sight.
 *  @param {GraphPage} page @returns {number | undefined} */
function middle({ view, place, model }) {
  if (place.selected < 0 || !view.lanes) {
    return undefined;
  }
  const x = view.shown.x((model.start[place.selected] + model.end[place.selected]) / 2, view.lanes);
  return x >= view.lanes.left && x <= view.lanes.left + view.lanes.width ? x : undefined;
}
