// The current step as a table, one row for each rank.

import { make } from "#player/dom.js";
import { formatBytes, formatExact } from "#player/format.js";
import { readRows } from "#player/moment.js";
import { named, say } from "#player/words.js";

/** @import { Model, Scene } from "#player/scene.d.ts" */

const COLUMNS = [say("table.rank"), say("table.doing"), say("table.sends"), say("table.to"), say("table.receives"), say("table.sent_so_far"), say("table.everything_alive")];
/** Where bytes go between tiers. */
const COPY_COLUMN = say("table.copies");

/**
 * @param {HTMLElement} host
 * @param {Model} model
 */
export function createTable(host, { doc }) {
  const hasCopies = doc.steps.some(({ kind }) => kind === "copy");
  const body = make("tbody", "");
  const head = make("tr", "");
  for (const name of hasCopies ? [...COLUMNS, COPY_COLUMN] : COLUMNS) {
    const cell = make("th", "", name);
    cell.scope = "col";
    head.append(cell);
  }
  const caption = make("caption", "unseen");
  host.append(make("table", "", caption, make("thead", "", head), body));
  let shown = -1;

  /** @param {Scene} scene */
  return function update({ model, position, rank }) {
    if (host.hidden) {
      shown = -1;
      return;
    }
    if (position !== shown) {
      shown = position;
      caption.textContent = say("table.step_what_each_rank_does", { step: position + 1 });
      body.replaceChildren(...readRows(model, position).map((row) => rowElement(row, hasCopies)));
    }
    for (const [at, row] of [...body.rows].entries()) {
      row.classList.toggle("selected", at === rank);
    }
  };
}

/** @param {import("#player/moment.js").Row} row @param {boolean} hasCopies */
function rowElement({ rank, doing, sends, to, receives, copies, sent, memory }, hasCopies) {
  const name = make("th", "", say("shared.rank", { rank }));
  name.scope = "row";
  return make(
    "tr",
    "",
    name,
    make("td", "", named(doing) || say("table.nothing")),
    make("td", "number", bytes(sends)),
    make("td", "", to || "–"),
    make("td", "number", bytes(receives)),
    make("td", "number sent", `${formatExact(sent)} B`),
    make("td", "number", memory === null ? say("shared.not_recorded") : formatBytes(memory)),
    ...(hasCopies ? [make("td", "number", bytes(copies))] : []),
  );
}

/** @param {number} value */
function bytes(value) {
  return value > 0 ? formatBytes(value) : "–";
}
