// Puts the player together: one state, one clock, one frame. Whatever happens changes the state
// and asks for a frame; the frame makes a scene and hands it to all that draws or writes.

import { createActions } from "#player/actions.js";
import { formatPlace, parsePlace } from "#player/address.js";
import { findBreaks } from "#player/breakpoints.js";
import { Clock } from "#player/clock.js";
import { createControls } from "#player/controls.js";
import { createBreakpointDialog, fillHelp } from "#player/dialogs.js";
import { DocumentError } from "#player/checks.js";
import { find, make, write } from "#player/dom.js";
import { createViews } from "#player/draw/index.js";
import { createExplanation } from "#player/explain.js";
import { Cells, sentAt, stepAtTime } from "#player/frames.js";
import { listen } from "#player/input.js";
import { createLegend } from "#player/legend.js";
import { LoadError } from "#player/load.js";
import { readModel } from "#player/model.js";
import { narrate } from "#player/moment.js";
import { fillShell } from "#player/shell.js";
import { createTable } from "#player/table.js";
import { effectiveTheme, markPage, storedTheme, wantsStill } from "#player/theme.js";

/** @import { Place } from "#player/address.js" */
/** @import { Model, Scene } from "#player/scene.d.ts" */

/** While playing, a screen reader hears a step at most so often. */
const NARRATION_MS = 2500;
/** A browser takes only so many new addresses a second. */
const ADDRESS_MS = 300;

/**
 * Load a document and show it in a page made from player.html.
 * @param {HTMLElement} root
 * @param {import("#player/load.js").Source} source
 * @returns {Promise<void>}
 */
export async function mountPlayer(root, source) {
  const status = find(root, "#status", HTMLElement);
  document.documentElement.lang = "en";
  markPage(parseTheme(), false);
  try {
    const model = readModel(await source.load());
    status.hidden = true;
    find(root, "#view", HTMLElement).hidden = false;
    fillShell(root, model.doc, source.embedded);
    new Player(root, model).start();
  } catch (error) {
    find(root, "#view", HTMLElement).hidden = true;
    status.hidden = false;
    status.replaceChildren(...failure(error));
    if (!(error instanceof DocumentError || error instanceof LoadError)) {
      throw error;
    }
  }
}

/** @param {unknown} error */
function failure(error) {
  const message = error instanceof Error ? error.message : String(error);
  const hint =
    error instanceof LoadError
      ? error.hint
      : "The trace may be of another version of zerosim: run it again, or choose another one.";
  return [
    make("h1", "", "The trace cannot be shown"),
    make("p", "reason", message),
    make("p", "", hint),
  ];
}

function parseTheme() {
  const theme = /[#&]theme=(light|dark)\b/.exec(location.hash)?.[1];
  return theme === "light" || theme === "dark" ? theme : storedTheme();
}

/** One replay in one page. */
export class Player {
  /**
   * @param {HTMLElement} root
   * @param {Model} model
   */
  constructor(root, model) {
    this.root = root;
    this.model = model;
    this.clock = new Clock(model);
    this.cells = new Cells(model);
    this.sent = new Float64Array(model.numRanks);
    /** @type {Place} */
    this.place = { ...this.usual() };
    /** @type {number[]} */
    this.breaks = [];
    /** @type {boolean | null} no motion; null: as the system wants it */
    this.still = null;
    this.frameAsked = false;
    this.narratedAt = -Infinity;
    this.addressTimer = 0;
    const host = (/** @type {string} */ id) => find(root, `#${id}`, HTMLElement);
    this.table = host("table");
    this.narration = host("narration");
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
    this.updateLegend = createLegend(host("legend"), model);
    this.updateTable = createTable(this.table);
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
    fillHelp(this.root);
    listen(this, createActions(this));
    this.follow();
    Object.defineProperty(window, "__player", {
      configurable: true,
      value: Object.freeze({ model: this.model, state: () => this.state() }),
    });
  }

  /** What a fragment that says nothing means. @returns {Place} */
  usual() {
    const theme = storedTheme();
    return { position: 0, rank: 0, mode: "work", theme, speed: 1, table: false, breakpoints: [] };
  }

  state() {
    const { position, tween, playing } = this.clock;
    return { ...this.place, position, tween, playing, breaks: [...this.breaks] };
  }

  /** Show what the address says. */
  follow() {
    const place = { ...this.usual(), ...parsePlace(location.hash, this.model) };
    this.clock.seek(place.position);
    this.change(place);
  }

  /** @param {Partial<Place>} part */
  change(part) {
    Object.assign(this.place, part);
    if (part.breakpoints) {
      this.breaks = findBreaks(this.model, part.breakpoints);
      this.clock.breakpoints = new Set(this.breaks);
    }
    const { theme, mode, table, speed } = this.place;
    this.clock.speed = speed;
    this.clock.reduced = this.still ?? wantsStill();
    markPage(theme, mode === "present");
    this.table.hidden = !table;
    find(this.root, "#timeline", HTMLElement).hidden = table;
    find(this.root, "#timeline-hint", HTMLElement).hidden = table;
    write(find(this.root, "#timeline-title", HTMLElement), table ? "Table of this step" : "Timeline");
    find(this.root, "#timeline-card", HTMLElement).classList.toggle("tabled", table);
    setPressed(this.root, "#table-toggle", table);
    setPressed(this.root, "#present", mode === "present");
    this.updateBreakpoints(this.place.breakpoints);
    this.ask();
  }

  /** @param {number} step */
  seek(step) {
    this.clock.seek(step);
    this.ask();
  }

  /** Ask for one frame; the clock asks for more while it plays. */
  ask() {
    if (!this.frameAsked) {
      this.frameAsked = true;
      requestAnimationFrame((now) => this.frame(now));
    }
  }

  /** @param {number} now */
  frame(now) {
    this.frameAsked = false;
    this.clock.tick(now);
    const { playing } = this.clock;
    this.place.position = this.clock.position;
    const scene = this.scene();
    this.views.render(scene);
    this.updateExplanation(scene);
    this.updateLegend(scene);
    this.updateTable(scene);
    const { speed, breakpoints } = this.place;
    this.updateControls(scene, { playing, speed, numBreakpoints: breakpoints.length });
    if (!playing || now - this.narratedAt > NARRATION_MS) {
      write(this.narration, narrate(this.model, scene.position));
      this.narratedAt = now;
    }
    if (playing) {
      this.ask();
    } else {
      this.writeAddress();
    }
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
      theme: effectiveTheme(place.theme),
      present: place.mode === "present",
      reduced: clock.reduced,
      breakpoints: this.breaks,
    };
  }

  writeAddress() {
    clearTimeout(this.addressTimer);
    this.addressTimer = window.setTimeout(() => {
      const hash = formatPlace(this.place, this.model);
      if (!this.clock.playing && hash !== location.hash) {
        history.replaceState(history.state, "", hash);
      }
    }, ADDRESS_MS);
  }
}

/** @param {HTMLElement} root @param {string} selector @param {boolean} pressed */
function setPressed(root, selector, pressed) {
  find(root, selector, HTMLElement).setAttribute("aria-pressed", String(pressed));
}
