// The three panels: memory now, sent so far, time so far, a bar for each run on one scale.

import { PHASES, palette } from "#player/colours.js";
import { WORDS } from "#player/compare/words.js";
import { AWAY, OTHER, WAITING } from "#player/compare/figures.js";
import { find, make, write } from "#player/dom.js";
import { fillOf } from "#player/draw/areas.js";
import { Gauges } from "#player/draw/gauges.js";
import { legendEntries } from "#player/draw/stack.js";
import { textures, waitFill } from "#player/draw/textures.js";
import { swatch } from "#player/legend.js";
import { named } from "#player/words.js";

/** @import { Row } from "#player/compare/figures.js" */
/** @import { Comparison, Run } from "#player/compare/model.js" */
/** @import { Palette, Theme } from "#player/colours.js" */
/** @import { ReplayDocument } from "#player/types.d.ts" */
/** @import { FillOf } from "#player/draw/gauges.js" */
/** @import { Entry } from "#player/draw/stack.js" */

/**
 * The contents of the panels.
 * @typedef {object} PanelScene
 * @property {number} rank global
 * @property {{memory: Row[], sent: Row[], time: Row[]}} rows
 * @property {{memory: number, sent: number, time: number}} scales
 * @property {Theme} theme
 * @property {boolean} present
 */

/** A role that is never more of the highest peak has no entry in the legend. */
const LEAST_SHARE = 0.02;

/** @type {FillOf} */
const roleFill = (ctx, kind, colours, scale) => {
  const away = AWAY.indexOf(kind);
  return away < 0
    ? fillOf(ctx, kind, colours.theme, colours, scale)
    : textures.get(ctx, "dense", colours.copies[away], colours.card, scale);
};

/** @type {FillOf} */
const timeFill = (ctx, kind, colours, scale) => {
  if (kind === WAITING) {
    return waitFill(ctx, colours, scale);
  }
  const phase = PHASES.find((one) => one === kind);
  return phase ? colours.phases[phase] : colours.line;
};

/**
 * @param {HTMLElement} root
 * @param {Comparison} comparison
 */
export function createPanels(root, { runs }) {
  const psi = Math.max(...runs.map(({ model }) => model.doc.traffic.psi_bytes));
  const roles = rolesOf(runs);
  const isRecorded = runs.some(({ model }) => model.doc.memory !== null);
  const phases = PHASES.filter((phase) => runs.some(({ model }) => model.doc.steps.some((s) => s.phase === phase)));
  const inIteration = phases.filter((phase) => phase !== "outside");
  const tiers = AWAY.filter((tier) => runs.some(({ model }) => hasTier(model.doc, tier)));
  const places = tiers.map((tier) => ({ label: WORDS.onTier(tier), roles: [tier] }));
  const memory = makePanel(root, "memory", roleFill, [...legendEntries([...roles], true), ...places]);
  const sent = makePanel(root, "sent", timeFill, inIteration.map(entryOf));
  const time = makePanel(root, "time", timeFill, [
    { label: WORDS.computing, roles: inIteration },
    { label: WORDS.waiting, roles: [WAITING] },
    { label: WORDS.other, roles: [OTHER] },
  ]);

  const predicted = runs.map(({ model }) => model.doc.run.is_predicted);

  /** @param {PanelScene} scene */
  return function update(scene) {
    const { rank, rows, scales } = scene;
    memory.title(isRecorded ? WORDS.memory(rank) : WORDS.states(rank));
    sent.title(WORDS.sent(rank));
    time.title(WORDS.time(rank, predicted));
    memory.render(rows.memory, scales.memory, WORDS.bytes, scene);
    sent.render(rows.sent, scales.sent, (bytes, law) => WORDS.sentOf(bytes, law, psi), scene);
    time.render(rows.time, scales.time, WORDS.duration, scene);
  };
}

/** @param {ReplayDocument} doc @param {string} tier */
function hasTier({ memory, states }, tier) {
  return memory ? memory.tiers.some((one) => one === tier) : states.some((state) => state.tier === tier);
}

/** @param {string} phase @returns {Entry} */
const entryOf = (phase) => ({ label: named(phase), roles: [phase] });

/**
 * Memory's roles in the order in which they lie on each other; those that are hardly to be seen in
 * any run need no entry.
 * @param {readonly Run[]} runs
 */
function rolesOf(runs) {
  const memories = runs.flatMap(({ model }) => model.doc.memory ?? []);
  if (memories.length < runs.length) {
    return [...new Set(runs.flatMap(({ model }) => model.doc.states.map(({ role }) => role)))];
  }
  const order = memories.map(({ roles }) => roles).sort((one, other) => other.length - one.length);
  const ranks = memories.flatMap((memory) =>
    memory.ranks.flatMap((rank) => (rank ? { roles: memory.roles, tiers: memory.tiers, ...rank } : [])),
  );
  const peak = Math.max(...ranks.map(({ peak_bytes: bytes }) => bytes));
  return [...new Set(order.flat())].filter((role) =>
    ranks.some(({ roles, tiers, bytes }) => bytes.some((row, i) => roles[i] === role && tiers[i] === "device" && row.some((one) => one >= LEAST_SHARE * peak))),
  );
}

/**
 * @param {HTMLElement} root
 * @param {string} name
 * @param {FillOf} fill
 * @param {readonly Entry[]} entries of its legend
 */
function makePanel(root, name, fill, entries) {
  const gauges = new Gauges(find(root, `#${name}`, HTMLElement), fill);
  const heading = find(root, `#${name}-title`, HTMLElement);
  const legend = find(root, `#${name}-legend`, HTMLElement);
  const law = find(root, `#${name}-law`, HTMLElement);
  let shown = "";
  return {
    /** @param {string} text */
    title: (text) => write(heading, text),
    /**
     * @param {readonly Row[]} rows
     * @param {number} most
     * @param {(amount: number, law: number | null) => string} say
     * @param {PanelScene} scene
     */
    render(rows, most, say, { theme, present }) {
      const key = `${theme} ${present} ${devicePixelRatio}`;
      if (key !== shown) {
        shown = key;
        legend.replaceChildren(...entries.map((entry) => legendItem(entry, fill, palette(theme))));
        law.replaceChildren(...(rows.some((row) => row.law !== null) ? [lawItem(palette(theme))] : []));
      }
      const shownRows = rows.map(({ title, parts, total, law }) => ({
        name: named(title),
        parts,
        mark: law,
        value: total === null ? WORDS.notRecorded : say(total, law),
      }));
      const values = [say(most, Math.max(0, ...rows.map(({ law }) => law ?? 0)) || null), ...shownRows.map(({ value }) => value)];
      const widest = values.reduce((one, other) => (other.length > one.length ? other : one));
      gauges.render(shownRows, most, widest, { theme, present });
    },
  };
}

/** @param {Entry} entry @param {FillOf} fill @param {Palette} colours */
function legendItem({ label, roles }, fill, colours) {
  const draw = (/** @type {string} */ kind) =>
    swatch((ctx, x, y, w, h) => {
      ctx.fillStyle = fill(ctx, kind, colours, devicePixelRatio);
      ctx.fillRect(x, y, w, h);
    });
  return make("li", "", ...roles.map(draw), label);
}

/** The meaning of the line across a bar. @param {Palette} colours */
function lawItem(colours) {
  const tick = swatch((ctx, x, y, w, h) => {
    ctx.fillStyle = colours.strong;
    ctx.fillRect(x + w / 2 - 2, y, 4, h);
  });
  return make("li", "", tick, WORDS.law);
}
