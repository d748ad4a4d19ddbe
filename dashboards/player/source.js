// Source lines as links into an editor. A trace names a file by its last folder and its name, and the reader
// configures, for this browser alone, where such files are and how an editor is addressed. The server reads
// no source file: a trace could name any.

import { find, make } from "#player/dom.js";
import { say } from "#player/words.js";

/**
 * Where source files are for this reader.
 * @typedef {object} Settings
 * @property {string} folder above the folder that a trace names; "" if unknown: no links
 * @property {string} editor an address with {file} and {line} in it
 */

/** @typedef {{file: string, line: string, name: string}} Source */

const STORE = "zerosim-editor";
export const EDITOR = "vscode://file{file}:{line}";
const SOURCE = /^([^:]+\.py):(\d{1,7}) in (.+)$/;
/** URL schemes that could run a script or open a page. */
const REFUSED = /^(javascript|data|vbscript|blob|about|filesystem):/i;
const SCHEME = /^[a-z][a-z0-9+.-]*:/i;

/** "models/gpt.py:137 in GPT.logits", split into parts; null for other text.
 *  @param {string} text @returns {Source | null} */
export function parseSource(text) {
  const found = SOURCE.exec(text);
  const isPlain = found && !/[\p{Cc}\\]/u.test(found[1]) && !found[1].split("/").includes("..");
  return isPlain ? { file: found[1], line: found[2], name: found[3] } : null;
}

/** Why an editor's address cannot be used; "" if it can. @param {string} editor */
export function problemOf(editor) {
  if (!SCHEME.test(editor) || REFUSED.test(editor)) {
    return say("source.is_no_editor_s_address_expected", { editor, editor_2: EDITOR });
  }
  return editor.includes("{file}") ? "" : say("source.no_file", { editor, file: "{file}", example: EDITOR });
}

/**
 * The address that opens a source line; "" where the reader has not said where files are.
 * @param {string} text
 * @param {Settings} settings
 */
export function linkOf(text, { folder, editor }) {
  const source = parseSource(text);
  if (!source || folder === "" || problemOf(editor) !== "") {
    return "";
  }
  const path = `${folder.replace(/\/+$/, "")}/${source.file}`;
  const encoded = path.split("/").map(encodeURIComponent).join("/");
  return editor.replaceAll("{file}", () => encoded).replaceAll("{line}", () => source.line);
}

/** @returns {Settings} */
export function storedEditor() {
  try {
    const { folder, editor } = JSON.parse(localStorage.getItem(STORE) ?? "{}");
    return { folder: typeof folder === "string" ? folder : "", editor: typeof editor === "string" ? editor : EDITOR };
  } catch {
    return { folder: "", editor: EDITOR };
  }
}

/** @param {Settings} settings */
function storeEditor(settings) {
  try {
    localStorage.setItem(STORE, JSON.stringify(settings));
  } catch {
    // Nothing is lost but the wish.
  }
}

/**
 * The fields of the settings, and what writes a source line.
 * @param {HTMLElement} root
 * @returns {(element: HTMLElement, text: string) => void}
 */
export function createSources(root) {
  const settings = storedEditor();
  const folder = find(root, "#set-folder", HTMLInputElement);
  const editor = find(root, "#set-editor", HTMLInputElement);
  const says = find(root, "#set-editor-says", HTMLElement);
  find(root, "#set-source", HTMLElement).hidden = false;
  folder.value = settings.folder;
  editor.value = settings.editor;
  /** @type {Map<HTMLElement, string>} */
  const written = new Map();

  /** @param {HTMLElement} element @param {string} text */
  function write(element, text) {
    written.set(element, text);
    const href = linkOf(text, settings);
    const link = make("a", "", text);
    link.href = href;
    link.title = say("source.open_this_line_in_the_editor");
    element.replaceChildren(...(href ? [link] : [text]));
  }

  for (const field of [folder, editor]) {
    field.addEventListener("change", () => {
      Object.assign(settings, { folder: folder.value.trim(), editor: editor.value.trim() || EDITOR });
      says.textContent = problemOf(settings.editor);
      storeEditor(settings);
      written.forEach((text, element) => write(element, text));
    });
  }
  return write;
}
