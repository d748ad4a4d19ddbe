// The tables below the graph: the critical path event by event, each rank's time, exposed communication,
// waits between ranks. Accessible to screen readers, with the numbers of `zerosim graph`.

import { find, make } from "#player/dom.js";
import { formatDecimal, formatExact } from "#player/format.js";
import { NUMBERS_PER_PIECE, NUMBERS_PER_WAIT } from "#player/graph/document.js";
import { ARRIVALS, CAPTIONS, COLUMNS, COPY_CAPTION, COPY_COLUMNS, TEXTS, copies } from "#player/graph/words.js";
import { named, say } from "#player/words.js";

/** @import { GraphPlace } from "#player/graph/address.js" */
/** @import { GraphModel } from "#player/graph/model.js" */

/** Rows that a table shows. */
const MOST_ROWS = 500;
/** Columns with words, aligned to the left. */
const WORDS = new Set(["what", "cause", "phase", "purpose"].map((name) => say(`graph.words.${name}`)));

/**
 * @param {HTMLElement} root
 * @param {GraphModel} model
 * @param {(node: number) => void} select
 */
export function createTables(root, model, select) {
  const host = find(root, "#tables", HTMLElement);
  let shown = "";
  host.addEventListener("click", ({ target }) => {
    const button = target instanceof Element ? target.closest("[data-node]") : null;
    if (button instanceof HTMLElement) {
      select(Number(button.dataset.node));
    }
  });

  /** @param {GraphPlace} place */
  return function update({ table, selected }) {
    if (table !== shown) {
      shown = table;
      host.replaceChildren(...fill(model, table));
      host.scrollTop = 0;
    }
    /** @type {Element | null} */
    let first = null;
    for (const row of host.querySelectorAll("tr[data-of]")) {
      const isSelected = row instanceof HTMLElement && Number(row.dataset.of) === selected;
      row.classList.toggle("selected", isSelected);
      first ??= isSelected ? row : null;
    }
    if (first && !host.contains(document.activeElement)) {
      first.scrollIntoView({ block: "nearest" });
    }
  };
}

/** @param {GraphModel} model @param {keyof typeof COLUMNS} table @returns {HTMLElement[]} */
function fill(model, table) {
  const { doc } = model;
  const rows = ROWS[table](model);
  const empty = {
    path: TEXTS.noPath,
    ranks: TEXTS.timeNotKnown,
    exposed: doc.time.waits_recorded ? TEXTS.nothingExposed : TEXTS.timeNotKnown,
    waited: TEXTS.nobodyWaited,
  };
  if (rows.length === 0) {
    return [make("p", "", empty[table])];
  }
  const ofCopies = table === "ranks" && doc.time.ranks.some(copies);
  const caption = table === "waited" && !doc.time.waits_recorded ? ARRIVALS : CAPTIONS[table];
  const head = [...COLUMNS[table], ...(ofCopies ? COPY_COLUMNS : [])].map((name) => {
    const cell = make("th", WORDS.has(name) ? "" : "number", name);
    cell.scope = "col";
    return cell;
  });
  const parts = [
    make(
      "table",
      "",
      make("caption", "", TEXTS.predicted(ofCopies ? caption + COPY_CAPTION : caption, doc.is_predicted)),
      make("thead", "", make("tr", "", ...head)),
      make("tbody", "", ...rows.slice(0, MOST_ROWS)),
    ),
  ];
  return rows.length > MOST_ROWS ? [...parts, make("p", "small", TEXTS.rows(MOST_ROWS, rows.length))] : parts;
}

/** @type {Record<keyof typeof COLUMNS, (model: GraphModel) => HTMLTableRowElement[]>} */
const ROWS = {
  path({ doc }) {
    const { pieces } = doc.path ?? { pieces: [] };
    return Array.from({ length: pieces.length / NUMBERS_PER_PIECE }, (_, k) => {
      const [node, cause, start, end, label] = pieces.slice(k * NUMBERS_PER_PIECE, (k + 1) * NUMBERS_PER_PIECE);
      const button = make("button", "link", doc.texts[label]);
      button.type = "button";
      button.dataset.node = String(node);
      const rank = doc.causes[cause] === "communication" ? TEXTS.all : String(doc.ranks[doc.nodes.rank[node]]);
      const row = make(
        "tr",
        "",
        number(ms(start)),
        number(ms(end - start)),
        number(rank),
        make("td", "", named(doc.causes[cause])),
        make("td", "", button),
      );
      row.dataset.of = String(node);
      return row;
    });
  },
  ranks({ doc }) {
    return doc.time.ranks.map((time, rank) =>
      make(
        "tr",
        "",
        heading(String(doc.ranks[rank])),
        number(ms(time.wall_ns)),
        number(ms(time.compute_ns)),
        number(ms(time.exposed_ns)),
        number(ms(time.waiting_ns)),
        number(ms(time.other_ns)),
        number(ms(time.hidden_ns)),
        number(share(time.overlap)),
        ...(doc.time.ranks.some(copies)
          ? [number(ms(time.copying_ns)), number(ms(time.hidden_copying_ns)), number(share(time.copying_overlap))]
          : []),
      ),
    );
  },
  exposed({ doc }) {
    return doc.time.exposed.map(({ rank, phase, purpose, num_waits: waits, exposed_ns: ns, is_copying: copying }) => {
      const { exposed_ns: exposed, copying_ns: copied } = doc.time.ranks[rank];
      const whole = copying ? copied : exposed;
      return make(
        "tr",
        "",
        heading(String(doc.ranks[rank])),
        make("td", "", named(phase)),
        make("td", "", purpose || "–"),
        number(formatExact(waits)),
        number(ms(ns)),
        number(`${formatDecimal((100 * ns) / whole, 1)} %`),
      );
    });
  },
  waited({ doc }) {
    const { waited } = doc.time;
    return Array.from({ length: waited.length / NUMBERS_PER_WAIT }, (_, k) => {
      const [rank, straggler, ns] = waited.slice(k * NUMBERS_PER_WAIT, (k + 1) * NUMBERS_PER_WAIT);
      return make("tr", "", heading(String(doc.ranks[rank])), number(String(doc.ranks[straggler])), number(ms(ns)));
    });
  },
};

/** Milliseconds as `zerosim graph` writes them. @param {number} ns */
function ms(ns) {
  return formatDecimal(ns / 1e6, 3);
}

/** @param {number | null} part */
function share(part) {
  return part === null ? "–" : `${formatDecimal(part * 100, 1)} %`;
}

/** @param {string} text */
const number = (text) => make("td", "number", text);

/** @param {string} text */
function heading(text) {
  const cell = make("th", "number", text);
  cell.scope = "row";
  return cell;
}
