// The verdict on a program: a table of checks, the reason, and a link to the replay.

import { make } from "#player/dom.js";
import { fill } from "#player/lesson/words.js";

/** @import { Words } from "#player/lesson/words.js" */

/**
 * One check.
 * @typedef {object} Row
 * @property {string} check
 * @property {string} words
 * @property {"holds" | "fails" | "not looked at"} outcome
 * @property {number | string} found
 * @property {number | string} expected
 * @property {"" | "most" | "least"} bound of `expected`
 */

/**
 * @typedef {object} Verdict
 * @property {boolean} passes
 * @property {Row[]} checks
 * @property {string | null} reason
 * @property {string | null} line where in the program, "ring.py:14"
 * @property {string} replay an address of this server; "" if there is no trace
 * @property {number | null} step the first illegal one
 * @property {string} printed
 * @property {string} solution "" unless it passes
 */

/**
 * Put a verdict into its section.
 * @param {HTMLElement} section
 * @param {Verdict} verdict
 * @param {Words} words
 * @param {(line: number) => void} goTo shows a line of the program
 */
export function drawVerdict(section, verdict, words, goTo) {
  const { passes, reason, printed, solution } = verdict;
  section.className = `card verdict-card ${passes ? "passes" : "not-yet"}`;
  const parts = [make("h2", "", passes ? words.passes : words.fails)];
  section.replaceChildren(...parts);
  if (reason) {
    section.append(make("p", "why", reason));
  }
  section.append(onward(verdict, words, goTo), tableOf(verdict.checks, words));
  if (printed.trim()) {
    section.append(folded(words.printed, printed, "printed", true));
  }
  if (solution) {
    section.append(folded(words.solution, solution, "solution", false));
  }
  section.hidden = false;
}

/** The number of a line such as "ring.py:14 in f"; 0 if it names none. @param {string | null} line */
export function lineOf(line) {
  return Number(/:(\d{1,6})\b/.exec(line ?? "")?.[1] ?? 0);
}

/** @param {Verdict} verdict @param {Words} words @param {(line: number) => void} goTo */
function onward({ line, replay, step }, words, goTo) {
  const row = make("p", "editor-line");
  const number = lineOf(line);
  if (number) {
    const button = make("button", "", fill(words.line, { line: number }));
    button.type = "button";
    button.addEventListener("click", () => goTo(number));
    row.append(button);
  }
  if (replay) {
    const link = make("a", "button watch", step ? words.replay : words.replay_all);
    link.href = replay;
    row.append(link);
  }
  return row;
}

/** @param {Row[]} rows @param {Words} words */
function tableOf(rows, words) {
  const head = make("tr", "");
  for (const [column, name] of [
    [words.column_check, ""],
    [words.column_outcome, ""],
    [words.column_found, "number"],
    [words.column_expected, "number"],
  ]) {
    const cell = make("th", name, column);
    cell.scope = "col";
    head.append(cell);
  }
  const body = make("tbody", "");
  for (const row of rows) {
    body.append(rowOf(row, words));
  }
  const table = make("table", "", make("caption", "unseen", words.table), make("thead", "", head), body);
  return make("div", "tabled", table);
}

/** @param {Row} row @param {Words} words */
function rowOf({ words: asks, outcome, found, expected, bound }, words) {
  const said = { holds: `✓ ${words.holds}`, fails: `✗ ${words.not_holds}`, "not looked at": `– ${words.not_looked_at}` };
  const name = make("th", "", asks);
  name.scope = "row";
  const isNumber = typeof found === "number";
  const kind = isNumber ? "number" : "";
  const most = { "": "{bound}", most: words.at_most, least: words.at_least }[bound];
  const right = expected === "" ? "" : fill(most, { bound: shown(expected) });
  return make(
    "tr",
    outcome === "not looked at" ? "unseen-yet" : outcome,
    name,
    make("td", "outcome", said[outcome]),
    make("td", kind, shown(found)),
    make("td", kind, right),
  );
}

/** @param {number | string} value */
function shown(value) {
  return typeof value === "number" ? value.toLocaleString("en-US") : value;
}

/** @param {string} title @param {string} text @param {string} kind @param {boolean} open */
function folded(title, text, kind, open) {
  const code = make("pre", kind, make("code", "", text));
  code.tabIndex = 0;
  const box = make("details", "", make("summary", "", title), code);
  box.open = open;
  return box;
}
