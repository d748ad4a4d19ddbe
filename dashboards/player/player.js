// Puts the player together: each frame makes a scene and hands it to all that draws or writes.

import { createActions } from "#player/actions.js";
import { findBreaks } from "#player/breakpoints.js";
import { createControls } from "#player/controls.js";
import { createBreakpointDialog, fillHelp } from "#player/dialogs.js";
import { DocumentError } from "#player/checks.js";
import { find, write } from "#player/dom.js";
import { createViews } from "#player/draw/index.js";
import { createExplanation } from "#player/explain.js";
import { Cells, sentAt, stepAtTime } from "#player/frames.js";
import { listen } from "#player/input.js";
import { createLegend } from "#player/legend.js";
import { LoadError, failure } from "#player/load.js";
import { readModel } from "#player/model.js";
import { narrate } from "#player/moment.js";
import { Screen, themeOfAddress } from "#player/screen.js";
import { fillShell } from "#player/shell.js";
import { createTable } from "#player/table.js";
import { markPage } from "#player/theme.js";

/** @import { Place } from "#player/address.js" */
/** @import { Model, Scene } from "#player/scene.d.ts" */

/**
 * Load a document and show it in a page made from player.html.
 * @param {HTMLElement} root
 * @param {import("#player/load.js").Source} source
 * @returns {Promise<void>}
 */
export async function mountPlayer(root, source) {
  const status = find(root, "#status", HTMLElement);
  document.documentElement.lang = "en";
  markPage(themeOfAddress(), false);
  try {
    const model = readModel(await source.load());
    status.hidden = true;
    find(root, "#view", HTMLElement).hidden = false;
    fillShell(root, model.doc, source.embedded);
    new Player(root, model).start();
  } catch (error) {
    find(root, "#view", HTMLElement).hidden = true;
    status.hidden = false;
    const hint = "The trace may be of another version of zerosim: run it again, or choose another one.";
    status.replaceChildren(...failure("The trace cannot be shown", error, hint));
    if (!(error instanceof DocumentError || error instanceof LoadError)) {
      throw error;
    }
  }
}

/** One replay in one page. */
export class Player extends Screen {
  /**
   * @param {HTMLElement} root
   * @param {Model} model
   */
  constructor(root, model) {
    super(root, model, model.doc.ranks);
    this.model = model;
    this.cells = new Cells(model);
    this.sent = new Float64Array(model.numRanks);
    /** @type {number[]} */
    this.breaks = [];
    const host = (/** @type {string} */ id) => find(root, `#${id}`, HTMLElement);
    this.table = host("table");
    this.views = createViews(
      {
        stage: host("stage"),
        scrubber: host("scrubber"),
        timeline: host("timeline"),
        traffic: host("traffic"),
        memory: host("memory"),
      },
      {
        onSeekTime: (ns, rank) => this.seek(stepAtTime(model, ns, rank)),
        onSeekStep: (step) => this.seek(step),
        onSelectRank: (rank) => this.change({ rank }),
      },
    );
    this.updateExplanation = createExplanation(root, model);
    this.updateLegend = createLegend(host("legend"), [model]);
    this.updateTable = createTable(this.table, model);
    this.updateControls = createControls(root, model, {
      seek: (step) => this.seek(step),
      setSpeed: (speed) => this.change({ speed }),
      selectRank: (rank) => this.change({ rank }),
    });
    this.updateBreakpoints = createBreakpointDialog(root, model, (breakpoints) =>
      this.change({ breakpoints }),
    );
  }

  start() {
    if (this.model.doc.steps.some(({ kind }) => kind === "copy")) {
      const hint = find(this.root, "#timeline-hint", HTMLElement);
      write(hint, hint.textContent?.replace("communication below", "communication and copies below") ?? "");
    }
    const actions = createActions(this);
    fillHelp(this.root, actions);
    listen(this, actions);
    this.follow();
    Object.defineProperty(window, "__player", {
      configurable: true,
      value: Object.freeze({ model: this.model, state: () => this.state() }),
    });
  }

  state() {
    return { ...super.state(), breaks: [...this.breaks] };
  }

  /** @param {Partial<Place>} part */
  change(part) {
    super.change(part);
    if (part.breakpoints) {
      this.breaks = findBreaks(this.model, part.breakpoints);
      this.clock.breakpoints = new Set(this.breaks);
    }
    const { table } = this.place;
    this.table.hidden = !table;
    find(this.root, "#timeline", HTMLElement).hidden = table;
    find(this.root, "#timeline-hint", HTMLElement).hidden = table;
    write(find(this.root, "#timeline-title", HTMLElement), table ? "Table of this step" : "Timeline");
    find(this.root, "#timeline-card", HTMLElement).classList.toggle("tabled", table);
    this.updateBreakpoints(this.place.breakpoints);
  }

  draw() {
    const scene = this.scene();
    this.views.render(scene);
    this.updateExplanation(scene);
    this.updateLegend(scene);
    this.updateTable(scene);
    const { speed, breakpoints } = this.place;
    const { playing } = this.clock;
    this.updateControls(scene, { playing, speed, numBreakpoints: breakpoints.length });
  }

  narrate() {
    return narrate(this.model, this.clock.position);
  }

  /** @returns {Scene} */
  scene() {
    const { model, clock, place } = this;
    const { position, tween } = clock;
    return {
      model,
      document: model.doc,
      position,
      tween,
      cells: this.cells.seek(position),
      sent: sentAt(model, position, tween, this.sent),
      rank: place.rank,
      ...this.look(),
      reduced: clock.reduced,
      breakpoints: this.breaks,
    };
  }
}
