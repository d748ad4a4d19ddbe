// Keys in the program's editor: Tab indents, Enter starts a line below. No key traps the user: after Escape,
// Tab leaves.

const INDENT = "    ";

/**
 * A part of a text to be replaced, its replacement, and the selection afterwards.
 * @typedef {{from: number, to: number, by: string, start: number, end: number}} Edit
 */

/**
 * Indent: the selected lines, or from the cursor to the next multiple of four.
 * @param {string} text @param {number} start @param {number} end
 * @returns {Edit}
 */
export function indented(text, start, end) {
  const line = lineOf(text, start);
  if (!text.slice(start, end).includes("\n")) {
    const by = INDENT.slice((start - line) % INDENT.length);
    return { from: start, to: end, by, start: start + by.length, end: start + by.length };
  }
  const by = text.slice(line, end).replace(/^(?=.)/gm, INDENT);
  return { from: line, to: end, by, start: line, end: line + by.length };
}

/**
 * Take one indentation from the lines that are selected, or from the cursor's.
 * @param {string} text @param {number} start @param {number} end
 * @returns {Edit}
 */
export function dedented(text, start, end) {
  const line = lineOf(text, start);
  const stop = text.indexOf("\n", Math.max(start, end - 1));
  const to = stop < 0 ? text.length : stop;
  const old = text.slice(line, to);
  const by = old.replace(/^ {1,4}/gm, "");
  const first = old.length - old.replace(/^ {1,4}/, "").length;
  const at = Math.max(line, start - first);
  return { from: line, to, by, start: at, end: start === end ? at : Math.max(at, end - (old.length - by.length)) };
}

/**
 * A new line as far in as this one, further after a colon.
 * @param {string} text @param {number} start @param {number} end
 * @returns {Edit}
 */
export function newLine(text, start, end) {
  const before = text.slice(lineOf(text, start), start);
  const indent = /^ */.exec(before)?.[0] ?? "";
  const by = `\n${indent}${before.trimEnd().endsWith(":") ? INDENT : ""}`;
  return { from: start, to: end, by, start: start + by.length, end: start + by.length };
}

/**
 * Where a line begins and ends.
 * @param {string} text @param {number} number from 1
 * @returns {[number, number]}
 */
export function placeOf(text, number) {
  const lines = text.split("\n");
  const at = Math.max(0, Math.min(lines.length, number) - 1);
  const start = lines.slice(0, at).reduce((sum, line) => sum + line.length + 1, 0);
  return [start, start + (lines[at]?.length ?? 0)];
}

/** @param {string} text @param {number} place */
function lineOf(text, place) {
  return text.lastIndexOf("\n", place - 1) + 1;
}

/**
 * Listen to a field in which a program is written.
 * @param {HTMLTextAreaElement} field
 * @param {() => void} check the action of Ctrl+Enter
 */
export function listenToEditor(field, check) {
  let lets = false; // Escape was pressed: Tab goes on to the next control
  field.addEventListener("blur", () => { lets = false; });
  field.addEventListener("keydown", (event) => {
    const { key, shiftKey } = event;
    if (key === "Escape") {
      lets = true;
      return;
    }
    if (key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      check();
      return;
    }
    const edit = event.ctrlKey || event.altKey || event.metaKey ? null : editOf(key, shiftKey, lets);
    if (key !== "Tab" && key !== "Shift") {
      lets = false;
    }
    if (edit) {
      event.preventDefault();
      apply(field, edit(field.value, field.selectionStart, field.selectionEnd));
    }
  });
}

/** @param {string} key @param {boolean} shift @param {boolean} lets */
function editOf(key, shift, lets) {
  if (key === "Tab" && !lets) {
    return shift ? dedented : indented;
  }
  return key === "Enter" && !shift ? newLine : null;
}

/** @param {HTMLTextAreaElement} field @param {Edit} edit */
function apply(field, { from, to, by, start, end }) {
  field.setSelectionRange(from, to);
  // The only edit that the browser can undo; without it, the text still changes.
  if (!(by ? document.execCommand("insertText", false, by) : document.execCommand("delete"))) {
    field.setRangeText(by, from, to, "end");
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
  field.setSelectionRange(start, end);
}
