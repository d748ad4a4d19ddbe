// The filters above the graph: the highlighted nodes, and the sorts of edges to draw.

import { fillSelect, find, make } from "#player/dom.js";
import { TABLES } from "#player/graph/address.js";
import { DASHES } from "#player/graph/edges.js";
import { edgeKindsIn, kindsIn, phasesIn, unitsIn } from "#player/graph/filter.js";
import { EDGE_TITLES, EDGE_WORDS, KIND_WORDS, TEXTS } from "#player/graph/words.js";
import { named } from "#player/words.js";

/** @import { GraphPlace } from "#player/graph/address.js" */
/** @import { Filter } from "#player/graph/filter.js" */
/** @import { GraphModel } from "#player/graph/model.js" */

/**
 * @param {HTMLElement} root
 * @param {GraphModel} model
 * @param {{filter: (part: Partial<Filter>) => void, table: (table: GraphPlace["table"]) => void}} wishes
 */
export function createControls(root, model, wishes) {
  const { doc } = model;
  const select = (/** @type {string} */ name) => find(root, `#filter-${name}`, HTMLSelectElement);
  const [kind, phase, unit, rank] = ["kind", "phase", "unit", "rank"].map(select);
  fillSelect(kind, [["", TEXTS.allKinds], ...kindsIn(model).map(pairOf(KIND_WORDS))]);
  fillSelect(phase, [["", TEXTS.allPhases], ...phasesIn(model).map((one) => /** @type {const} */ ([one, named(one)]))]);
  fillSelect(unit, [["", TEXTS.allUnits], ...unitsIn(model).map(pairOf({}))]);
  fillSelect(rank, [
    ["-1", TEXTS.allRanks],
    ...doc.ranks.map((one, at) => /** @type {const} */ ([String(at), TEXTS.rank(one)])),
  ]);
  kind.addEventListener("change", () => wishes.filter({ kind: kind.value }));
  phase.addEventListener("change", () => wishes.filter({ phase: phase.value }));
  unit.addEventListener("change", () => wishes.filter({ unit: unit.value }));
  rank.addEventListener("change", () => wishes.filter({ rank: Number(rank.value) }));

  const edges = new Map(edgeKindsIn(model).map((one) => [one, edgeButton(one)]));
  find(root, "#edges", HTMLElement).append(...edges.values());
  /** @type {Filter["edges"]} */
  let wanted = [];
  for (const [one, button] of edges) {
    button.addEventListener("click", () => {
      const others = wanted.filter((other) => other !== one);
      wishes.filter({ edges: others.length < wanted.length ? others : [...wanted, one] });
    });
  }
  const critical = find(root, "#only-critical", HTMLButtonElement);
  critical.disabled = doc.path === null;
  const tables = new Map(
    TABLES.map((name) => [name, find(root, `[data-table="${name}"]`, HTMLButtonElement)]),
  );
  for (const [name, button] of tables) {
    button.addEventListener("click", () => wishes.table(name));
  }

  /** @param {GraphPlace} place */
  return function update({ filter, table }) {
    wanted = filter.edges;
    kind.value = filter.kind;
    phase.value = filter.phase;
    unit.value = filter.unit;
    rank.value = String(filter.rank);
    press(critical, filter.critical);
    press(find(root, "#only-waits", HTMLButtonElement), filter.waits);
    for (const [one, button] of edges) {
      press(button, wanted.includes(one));
    }
    for (const [name, button] of tables) {
      press(button, name === table);
    }
  };
}

/** @param {Readonly<Record<string, string>>} words @returns {(value: string) => [string, string]} */
const pairOf = (words) => (value) => [value, words[value] ?? value];

/** @param {import("#player/graph/types.d.ts").EdgeKind} kind */
function edgeButton(kind) {
  const line = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  line.setAttribute("viewBox", "0 0 26 6");
  line.setAttribute("aria-hidden", "true");
  const stroke = document.createElementNS("http://www.w3.org/2000/svg", "path");
  stroke.setAttribute("d", "M1 3H25");
  stroke.setAttribute("stroke", "currentColor");
  stroke.setAttribute("stroke-width", "2");
  stroke.setAttribute("stroke-dasharray", DASHES[kind].join(" "));
  line.append(stroke);
  const button = make("button", "edge", line, EDGE_WORDS[kind]);
  button.type = "button";
  button.title = EDGE_TITLES[kind];
  return button;
}

/** @param {HTMLButtonElement} button @param {boolean} pressed */
function press(button, pressed) {
  button.setAttribute("aria-pressed", String(pressed));
}
