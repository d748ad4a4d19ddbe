// Puts the Graph page together: one place, one frame. Every event changes the place and requests a frame; the
// frame draws the graph and updates everything around it.

import { DocumentError } from "#player/checks.js";
import { fillSelect, find, make, offer, write } from "#player/dom.js";
import { formatTime, joinDots } from "#player/format.js";
import { formatGraphPlace, parseGraphPlace } from "#player/graph/address.js";
import { createControls } from "#player/graph/controls.js";
import { createDetails, reasonOf, slackOf } from "#player/graph/details.js";
import { leavesOut, passes } from "#player/graph/filter.js";
import { listen } from "#player/graph/input.js";
import { createLegend } from "#player/graph/legend.js";
import { labelOf, readGraph } from "#player/graph/model.js";
import { fillRanks } from "#player/graph/ranks.js";
import { createTables } from "#player/graph/tables.js";
import { GraphView } from "#player/graph/view.js";
import { TEXTS } from "#player/graph/words.js";
import { iterationSearch } from "#player/address.js";
import { Fragment } from "#player/fragment.js";
import { LoadError } from "#player/load.js";
import { effectiveTheme, markPage, storedTheme } from "#player/theme.js";
import { say } from "#player/words.js";

/** @import { GraphPlace } from "#player/graph/address.js" */
/** @import { Filter } from "#player/graph/filter.js" */
/** @import { GraphModel } from "#player/graph/model.js" */

/**
 * Load a document and show it.
 * @param {HTMLElement} root
 * @param {import("#player/load.js").Source} source
 */
export async function mountGraph(root, source) {
  const status = find(root, "#status", HTMLElement);
  const fields = new URLSearchParams(location.hash.slice(1));
  const theme = fields.get("theme");
  markPage(theme === "light" || theme === "dark" ? theme : storedTheme(), fields.get("mode") === "present");
  try {
    const model = readGraph(asShown(await source.load()));
    status.hidden = true;
    find(root, "#view", HTMLElement).hidden = false;
    new GraphPage(root, model).start();
  } catch (error) {
    find(root, "#view", HTMLElement).hidden = true;
    status.hidden = false;
    const message = error instanceof Error ? error.message : String(error);
    const hint = error instanceof LoadError ? error.hint : TEXTS.otherVersion;
    status.replaceChildren(
      make("h1", "", TEXTS.failed), make("p", "reason", message), make("p", "", hint),
    );
    if (!(error instanceof DocumentError || error instanceof LoadError)) {
      throw error;
    }
  }
}

/**
 * In a lesson's frame the events alone are shown, and no critical path.
 * @param {unknown} loaded
 */
function asShown(loaded) {
  const isPlain = typeof loaded === "object" && loaded !== null;
  return "embed" in document.documentElement.dataset && isPlain ? { ...loaded, path: null } : loaded;
}

/** The waits between ranks, and beside them the rest. @param {readonly string[]} clauses */
export function sentences(clauses) {
  const last = clauses[clauses.length - 1] ?? "";
  const rest = clauses.slice(0, -1).join(say("graph.words.clause"));
  const title = say("graph.words.sentence", { text: `${last.charAt(0).toUpperCase()}${last.slice(1)}` });
  return { title, what: rest && say("graph.words.sentence", { text: rest }) };
}

export class GraphPage {
  /** @param {HTMLElement} root @param {GraphModel} model */
  constructor(root, model) {
    this.root = root;
    this.model = model;
    /** @type {GraphPlace} */
    this.place = parseGraphPlace(location.hash, model, storedTheme());
    this.passed = passes(model, this.place.filter);
    this.pointedAt = -1;
    this.frameAsked = false;
    this.fragment = new Fragment(() => formatGraphPlace(this.place, this.model), () => this.follow());
    const host = (/** @type {string} */ id) => find(root, `#${id}`, HTMLElement);
    this.hint = host("hint");
    this.narration = host("narration");
    this.view = new GraphView(host("chart"), model, {
      onSelect: (node) => this.select(node),
      onPoint: (node) => {
        this.pointedAt = node;
        this.writeHint();
      },
      onMove: () => this.ask(),
    });
    this.updateControls = createControls(root, model, {
      filter: (part) => this.filter(part),
      table: (table) => this.change({ table }),
    });
    this.updateDetails = createDetails(root, model, (node) => this.select(node));
    this.updateTables = createTables(root, model, (node) => this.select(node));
    this.updateLegend = createLegend(host("legend"), model);
  }

  start() {
    const { root, model } = this;
    document.title = TEXTS.title(model.doc.name);
    const { title, what } = sentences(model.doc.clauses);
    write(find(root, "#title", HTMLElement), title);
    const about = find(root, "#what", HTMLElement);
    write(about, what);
    about.title = what; // a low window has room for its first line
    fillRanks(root, model);
    const notes = [...model.doc.violations, ...model.doc.notes].join(" · ");
    const line = find(root, "#notes", HTMLElement);
    line.hidden = notes === "";
    line.title = notes;
    write(line, notes);
    this.fillIterations();
    listen(this);
    this.follow();
    offer("__graph", { model, state: () => this.state() });
  }

  /** For tests: the position of the page, and its drawing. */
  state() {
    const { shown, lanes, numEdges, hidesEdges } = this.view;
    const count = this.passed.reduce((sum, one) => sum + one, 0);
    return { ...this.place, from: shown.from, to: shown.to, lanes, numEdges, hidesEdges, count };
  }

  fillIterations() {
    const { iteration, iterations } = this.model.doc;
    const select = find(this.root, "#iteration", HTMLSelectElement);
    fillSelect(select, iterations.map((one) => [String(one), String(one)]));
    select.value = String(iteration);
    select.addEventListener("change", () => {
      const { theme, present } = this.place;
      const all = parseGraphPlace("", this.model, theme);
      location.assign(
        iterationSearch(location.search, Number(select.value)) +
          formatGraphPlace({ ...all, table: this.place.table, present }, this.model),
      );
    });
    find(this.root, "#iteration-label", HTMLElement).hidden = iterations.length < 2;
  }

  /** Go to the place in the address. */
  follow() {
    const place = parseGraphPlace(this.fragment.read(), this.model, storedTheme());
    this.view.shown.show(place.from, place.to);
    this.passed = passes(this.model, place.filter);
    this.change(place);
  }

  /** @param {Partial<GraphPlace>} part */
  change(part) {
    Object.assign(this.place, part);
    const { theme, present } = this.place;
    markPage(theme, present);
    find(this.root, "#present", HTMLElement).setAttribute("aria-pressed", String(present));
    this.updateLegend(effectiveTheme(theme));
    this.updateControls(this.place);
    this.updateDetails(this.place);
    this.updateTables(this.place);
    this.ask();
  }

  /** @param {Partial<Filter>} part */
  filter(part) {
    const filter = { ...this.place.filter, ...part };
    this.passed = passes(this.model, filter);
    this.change({ filter });
  }

  /** @param {number} node -1: none */
  select(node) {
    if (node >= 0) {
      const { filter } = this.place;
      if (filter.rank >= 0 && filter.rank !== this.model.rank[node]) {
        this.filter({ rank: -1 });
      }
      this.view.reveal(node);
      write(this.narration, `${this.say(node)}. ${reasonOf(this.model, node)}`);
    }
    this.change({ selected: node });
  }

  ask() {
    if (!this.frameAsked) {
      this.frameAsked = true;
      requestAnimationFrame(() => this.frame());
    }
  }

  frame() {
    this.frameAsked = false;
    const { view, place, passed } = this;
    place.from = view.shown.from;
    place.to = view.shown.to;
    const { filter, selected, theme, present } = place;
    view.render({ filter, passed, selected, theme: effectiveTheme(theme), present });
    this.writeHint();
    this.fragment.writeSoon();
  }

  writeHint() {
    const { view, place, model, passed, pointedAt } = this;
    let text = TEXTS.hint;
    if (pointedAt >= 0) {
      text = this.say(pointedAt);
    } else if (view.hidesEdges) {
      text = TEXTS.tooManyEdges(view.numEdges);
    } else if (leavesOut(place.filter)) {
      text = TEXTS.filtered(passed.reduce((sum, one) => sum + one, 0), model.numNodes);
    }
    write(this.hint, text);
  }

  /** A node in one line. @param {number} node */
  say(node) {
    const { model } = this;
    const took = model.end[node] - model.start[node];
    return joinDots([
      TEXTS.rank(model.doc.ranks[model.rank[node]]),
      labelOf(model, node),
      took > 0 && formatTime(took, model.doc.is_predicted),
      `${TEXTS.facts.slack} ${slackOf(model, node)}`,
    ]);
  }
}
