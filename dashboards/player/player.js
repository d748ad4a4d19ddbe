// Puts the player together: each frame makes a scene and hands it to all that draws or writes.

import { createActions } from "#player/actions.js";
import { findBreaks } from "#player/breakpoints.js";
import { createControls } from "#player/controls.js";
import { createBreakpointDialog, fillHelp, fillSigns } from "#player/dialogs.js";
import { DocumentError } from "#player/checks.js";
import { find, offer, setPressed, write } from "#player/dom.js";
import { createViews } from "#player/draw/index.js";
import { createExplanation } from "#player/explain.js";
import { stepAtTime } from "#player/frames.js";
import { listen } from "#player/input.js";
import { createLegend } from "#player/legend.js";
import { LoadError, failure } from "#player/load.js";
import { readModel } from "#player/model.js";
import { createModelStrip } from "#player/modelstrip.js";
import { narrate } from "#player/moment.js";
import { Regions } from "#player/regions.js";
import { Scenes } from "#player/scenes.js";
import { Screen, themeOfAddress } from "#player/screen.js";
import { createSearch } from "#player/searchfield.js";
import { fillShell } from "#player/shell.js";
import { createSpeech } from "#player/speech.js";
import { createStrip } from "#player/strip.js";
import { createTable } from "#player/table.js";
import { createMenu } from "#player/take/menu.js";
import { takeAway } from "#player/take/takeaway.js";
import { NO_STOP, narrateStop, tourSteps } from "#player/tour.js";
import { markPage, showMore, storeMore, storedMore } from "#player/theme.js";
import { createTimelineLegend } from "#player/timelinelegend.js";
import { say } from "#player/words.js";

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
    const hint = say("shared.other_version");
    status.replaceChildren(...failure(say("player.the_trace_cannot_be_shown"), error, hint));
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
    super(root, model, model.doc.ranks, { beatOf: model.beatOf, beatMain: model.beatMain, stops: tourSteps(model) });
    this.model = model;
    this.scenes = new Scenes(model);
    /** @type {number[]} */
    this.breaks = [];
    /** @type {readonly number[]} steps that a search found */
    this.hits = [];
    const host = (/** @type {string} */ id) => find(root, `#${id}`, HTMLElement);
    this.table = host("table");
    this.regions = new Regions(root, host("named"));
    this.views = createViews(
      {
        stage: host("stage"),
        timeline: host("timeline"),
        traffic: host("traffic"),
        memory: host("memory"),
      },
      {
        onSeekTime: (ns, rank) => this.seek(stepAtTime(model, ns, rank)),
        onSelectRank: (rank) => this.change({ rank }),
      },
      this.regions,
    );
    this.updateStrip = createStrip(host("strip"), model, (step) => this.seek(step));
    this.updateModelStrip = createModelStrip(host("model"), model);
    this.updateExplanation = createExplanation(root, model);
    this.updateLegend = createLegend(host("legend"), [model]);
    this.updateHelpLegend = createLegend(host("help-shards"), [model]);
    this.updateTimelineLegend = createTimelineLegend(host("timeline-legend"), model);
    this.updateTable = createTable(this.table, model);
    this.take = takeAway(model);
    this.openMenu = createMenu(root, model, this.take, () => this.scene());
    this.updateControls = createControls(root, model, {
      setSpeed: (speed) => this.change({ speed }),
      selectRank: (rank) => this.change({ rank }),
    });
    this.search = createSearch(root, model, {
      found: (steps) => {
        this.hits = steps;
        this.ask();
      },
      goTo: (step) => this.seek(step),
    });
    this.speech = createSpeech(root, () => this.narrate());
    this.updateBreakpoints = createBreakpointDialog(root, model, (breakpoints) =>
      this.change({ breakpoints }),
    );
  }

  start() {
    this.more(storedMore());
    if (this.model.doc.steps.some(({ kind }) => kind === "copy")) {
      const hint = find(this.root, "#timeline-hint", HTMLElement);
      write(hint, say("player.hint_with_copies"));
    }
    const actions = createActions(this);
    fillHelp(this.root, actions);
    fillSigns(this.root, this.model);
    find(this.root, "#help-words", HTMLElement).hidden = false;
    find(this.root, "#help-shards-part", HTMLElement).hidden = this.model.numStates === 0;
    listen(this, actions);
    this.follow();
    offer("__player", {
      model: this.model,
      take: this.take,
      state: () => this.state(),
      shown: () => this.views.shown(),
    });
  }

  /** All there is, or the picture alone. @param {boolean} more */
  more(more) {
    storeMore(more);
    showMore(more);
    setPressed(this.root, "#more", more);
    this.ask();
  }

  /** Stop at a place of the tour. @param {number} stop */
  visit(stop) {
    this.clock.seek(this.model.doc.tour[stop].step);
    this.change({ tour: stop });
  }

  /** An empty fragment is the first beat. */
  usual() {
    return { ...super.usual(), position: this.ground.beatMain?.[0] ?? 0 };
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
    find(this.root, "#timeline-legend", HTMLElement).hidden = table;
    write(find(this.root, "#timeline-title", HTMLElement), table ? say("player.table_of_this_step") : this.model.doc.run.is_predicted ? say("player.timeline_predicted") : say("player.timeline"));
    find(this.root, "#timeline-card", HTMLElement).classList.toggle("tabled", table);
    this.updateBreakpoints(this.place.breakpoints);
  }

  draw() {
    const scene = this.scene();
    this.views.render(scene);
    this.regions.refresh(scene.position);
    this.updateStrip(scene);
    this.updateModelStrip(scene);
    this.updateExplanation(scene);
    this.updateLegend(scene);
    this.updateHelpLegend(scene);
    this.updateTimelineLegend(scene);
    this.updateTable(scene);
    const { speed, breakpoints } = this.place;
    const { playing } = this.clock;
    this.updateControls(scene, { playing, speed, numBreakpoints: breakpoints.length });
    if (!playing) {
      this.speech.follow(this.narrate());
    }
  }

  narrate() {
    const { tour, hops } = this.place;
    return tour === NO_STOP ? narrate(this.model, this.clock.position, hops, this.clock.isOver) : narrateStop(this.model, tour);
  }

  /** @returns {Scene} */
  scene() {
    const { position, tween, reduced } = this.clock;
    const { hops, rank, tour } = this.place;
    const marks = tour === NO_STOP ? this.hits : this.ground.stops ?? [];
    const seen = { hops, rank, tour, marks, reduced, breakpoints: this.breaks, ...this.look() };
    return this.scenes.at(position, tween, seen);
  }
}
