// The current moment as a table: one row per run, with the numbers.

import { WORDS } from "#player/compare/words.js";
import { WAITING, amountOf, computingOf } from "#player/compare/figures.js";
import { make } from "#player/dom.js";

/** @import { Row } from "#player/compare/figures.js" */
/** @import { Run } from "#player/compare/model.js" */

/** Columns from here on are numbers. */
const FIRST_NUMBER = 3;

/**
 * @param {HTMLElement} host
 * @param {readonly Run[]} runs
 */
export function createTable(host, runs) {
  const body = make("tbody", "");
  const head = make("tr", "");
  for (const [column, name] of WORDS.columns.entries()) {
    const cell = make("th", column >= FIRST_NUMBER ? "number" : "", name);
    cell.scope = "col";
    head.append(cell);
  }
  const caption = make("caption", "unseen");
  host.append(make("table", "", caption, make("thead", "", head), body));
  let shown = "";

  /**
   * @param {number} at
   * @param {string} title
   * @param {number} rank
   * @param {{memory: Row[], sent: Row[], time: Row[]}} rows
   */
  return function update(at, title, rank, rows) {
    const key = host.hidden ? "" : `${at} ${rank}`;
    if (key === shown) {
      return;
    }
    shown = key;
    caption.textContent = WORDS.table(title);
    body.replaceChildren(
      ...runs.map((run, r) => rowElement(run, at, rows.memory[r], rows.sent[r], rows.time[r])),
    );
  };
}

/**
 * @param {Run} run
 * @param {number} at
 * @param {Row} memory
 * @param {Row} sent
 * @param {Row} time
 */
function rowElement({ aligned, model }, at, memory, sent, time) {
  const name = make("th", "", aligned.title);
  name.scope = "row";
  /** @param {number | null} bytes */
  const bytes = (bytes) => (bytes === null ? WORDS.notRecorded : WORDS.exact(bytes));
  const { law_bytes: lawBytes } = model.doc.traffic;
  const numbers = [
    bytes(memory.total) + WORDS.elsewhere(memory.elsewhere ?? []),
    aligned.law_bytes === null ? WORDS.none : WORDS.bytes(aligned.law_bytes),
    bytes(sent.total),
    lawBytes === null ? WORDS.none : WORDS.bytes(lawBytes),
    WORDS.spent(computingOf(time), model.doc.run.is_predicted),
    WORDS.spent(amountOf(time, WAITING), model.doc.run.is_predicted),
  ];
  return make(
    "tr",
    "",
    name,
    make("td", "", `${aligned.steps[at] + 1} / ${model.numSteps}`),
    make("td", "", aligned.follows[at]),
    ...numbers.map((number, n) => make("td", n === 2 ? "number sent" : "number", number)),
  );
}
