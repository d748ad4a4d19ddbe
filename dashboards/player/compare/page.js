// Puts the Compare page together: one cursor, and for each run its step at the cursor's moment.

import { RunCard } from "#player/compare/cards.js";
import { createControls, watchChoices } from "#player/compare/controls.js";
import { memoryNow, scalesOf, sentSoFar, timeSoFar } from "#player/compare/figures.js";
import { readComparison } from "#player/compare/model.js";
import { createPanels } from "#player/compare/panels.js";
import { createTable } from "#player/compare/table.js";
import { KEY_WORDS, WORDS } from "#player/compare/words.js";
import { commonActions } from "#player/actions.js";
import { formatPlace } from "#player/address.js";
import { fillHelp, openDialog } from "#player/dialogs.js";
import { find, offer, write } from "#player/dom.js";
import { Scrubber } from "#player/draw/scrubber.js";
import { Cells } from "#player/frames.js";
import { listen } from "#player/input.js";
import { createLegend } from "#player/legend.js";
import { failure, isOffline, serverSource } from "#player/load.js";
import { Screen, themeOfAddress } from "#player/screen.js";
import { markPage } from "#player/theme.js";
import { first, last, next, nextPhase, previous, previousPhase } from "#player/transport.js";
import { named, say } from "#player/words.js";

/** @import { Comparison } from "#player/compare/model.js" */

/** @type {number[]} a comparison has no breakpoints */
const NO_BREAKS = [];

/**
 * Load the runs and show them.
 * @param {HTMLElement} root
 * @param {readonly string[]} names of the traces
 */
export async function mountCompare(root, names) {
  const status = find(root, "#status", HTMLElement);
  const view = find(root, "#view", HTMLElement);
  markPage(themeOfAddress(), /[#&]mode=present\b/.test(location.hash));
  watchChoices(root);
  find(root, "#choose", HTMLElement).addEventListener("click", () => openDialog(root, "run"));
  try {
    const query = new URLSearchParams(names.map((name) => ["trace", name]));
    // the alignment is checked first: its error is one line
    const documents = Promise.allSettled(
      names.map((trace) => serverSource(`/api/replay?${new URLSearchParams({ trace })}`).load()),
    );
    const alignment = await serverSource(`/api/compare?${query}`).load();
    const loaded = (await documents).map((one) => {
      if (one.status === "rejected") {
        throw one.reason;
      }
      return one.value;
    });
    const comparison = readComparison(alignment, loaded);
    status.hidden = true;
    view.hidden = false;
    new ComparePage(root, comparison).start();
  } catch (error) {
    view.hidden = true;
    status.hidden = false;
    status.replaceChildren(...failure(WORDS.cannot, error, WORDS.hint));
  }
}

/** Some runs in one page. */
export class ComparePage extends Screen {
  /**
   * @param {HTMLElement} root
   * @param {Comparison} comparison
   */
  constructor(root, comparison) {
    const { alignment, runs, track } = comparison;
    super(root, track, alignment.ranks);
    this.comparison = comparison;
    this.cells = runs.map(({ model }) => new Cells(model));
    const host = (/** @type {string} */ id) => find(root, `#${id}`, HTMLElement);
    this.title = host("title");
    this.what = host("what");
    this.table = host("table");
    this.panels = host("panels");
    this.cards = runs.map((run) => new RunCard(run));
    root.classList.toggle("stateless", runs.every(({ model }) => model.doc.states.length === 0));
    root.style.setProperty("--runs", String(runs.length));
    host("cards").replaceChildren(...this.cards.map(({ element }) => element));
    this.scrubber = new Scrubber(host("scrubber"), { onSeekStep: (moment) => this.seek(moment) });
    this.updateLegend = createLegend(host("legend"), runs.map(({ model }) => model));
    this.updatePanels = createPanels(root, comparison);
    this.updateTable = createTable(this.table, runs);
    this.updateControls = createControls(root, alignment, {
      seek: (moment) => this.seek(moment),
      setSpeed: (speed) => this.change({ speed }),
      selectRank: (rank) => this.change({ rank }),
    });
    /** @type {{rank: number, scales: ReturnType<typeof scalesOf>} | null} */
    this.scaled = null;
    const observer = new ResizeObserver(() => {
      this.scrubber.resize();
      this.draw();
    });
    for (const id of ["cards", "scrubber", "panels"]) {
      observer.observe(host(id));
    }
  }

  start() {
    const { alignment, track } = this.comparison;
    document.title = WORDS.pageTitle(alignment.runs.map(({ title }) => named(title)));
    const notes = find(this.root, "#notes", HTMLElement);
    notes.hidden = alignment.notes.length === 0;
    write(notes, alignment.notes.join(" · "));
    write(find(this.root, "#choose", HTMLElement), WORDS.choose(this.comparison.runs.map(({ model }) => model.doc.run)));
    notes.title = notes.textContent ?? "";
    const moves = { first, back: previous, forward: next, last, nextPhase, previousPhase };
    const actions = commonActions(this);
    for (const [name, move] of Object.entries(moves)) {
      actions[name] = () => this.seek(move(track, this.clock.position));
    }
    if (isOffline()) {
      delete actions.run; // there are no others to choose
    }
    fillHelp(this.root, actions, KEY_WORDS);
    listen(this, actions);
    this.follow();
    offer("__player", { alignment, state: () => this.state() });
  }

  state() {
    const place = super.state();
    const { position } = place;
    return { ...place, steps: this.comparison.alignment.runs.map(({ steps }) => steps[position]) };
  }

  /** @param {Partial<import("#player/address.js").Place>} part */
  change(part) {
    super.change(part);
    this.table.hidden = !this.place.table;
    this.panels.hidden = this.place.table;
  }

  draw() {
    const { alignment, runs, track, units } = this.comparison;
    const { position, tween, playing } = this.clock;
    const { theme, present } = this.look();
    const rank = alignment.ranks[this.place.rank];
    if (this.scaled?.rank !== rank) {
      this.scaled = { rank, scales: scalesOf(this.comparison, rank) };
    }
    const moment = alignment.moments[position];
    const cells = runs.map(({ aligned }, r) => this.cells[r].seek(aligned.steps[position]));
    write(this.title, alignment.titles[position]);
    write(this.what, alignment.whats[position]);
    const fragment = this.restOfFragment();
    for (const [r, card] of this.cards.entries()) {
      card.render({ at: position, moment, unit: units[r][position], rank, cells: cells[r], theme, present, fragment });
    }
    const rows = this.rows(rank, cells);
    this.updatePanels({ rank, rows, scales: this.scaled.scales, theme, present });
    this.updateTable(position, alignment.titles[position], rank, rows);
    this.updateLegend({ theme, present });
    this.scrubber.render({ model: track, position, tween, theme, present, breakpoints: NO_BREAKS });
    this.updateControls({ position, playing, speed: this.place.speed, rank: this.place.rank });
  }

  /** The panels' rows. @param {number} rank global @param {readonly Uint8Array[]} cells by run */
  rows(rank, cells) {
    const { runs } = this.comparison;
    const { position } = this.clock;
    return {
      memory: runs.map((run, r) => memoryNow(run, run.aligned.steps[position], rank, cells[r])),
      sent: runs.map((run) => sentSoFar(run, run.aligned.steps[position], rank)),
      time: runs.map((run) => timeSoFar(run, run.aligned.steps[position], rank)),
    };
  }

  /** The part of the address besides the step that a link to Replay keeps. */
  restOfFragment() {
    return formatPlace({ ...this.place, speed: 1, table: false }, this.ground).replace(/^#at=\d+/, "");
  }

  narrate() {
    const { alignment, runs } = this.comparison;
    const { position } = this.clock;
    const rank = alignment.ranks[this.place.rank];
    const each = runs.map(({ aligned }, r) => {
      const memory = memoryNow(runs[r], aligned.steps[position], rank, this.cells[r].seek(aligned.steps[position]));
      const holds = memory.total === null ? WORDS.notRecorded : WORDS.bytes(memory.total);
      return say("compare.words.each", { title: aligned.title, follows: aligned.follows[position], holds });
    });
    const spoken = WORDS.spoken(position + 1, alignment.titles.length, alignment.titles[position]);
    return [say("compare.words.sentence", { text: spoken }), ...each].join(say("compare.words.between"));
  }
}
