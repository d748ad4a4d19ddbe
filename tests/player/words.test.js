// What the player says: every key is there, each is said with what it has braces for, and no module
// has words of its own.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import ts from "typescript";

import { named, say } from "#player/words.js";

const ROOTS = [new URL("../../dashboards/player/", import.meta.url), new URL("../../dashboards/assets/", import.meta.url)];

/** Files that have words which nobody reads on a page, or that are code. @type {Record<string, string>} */
const ALLOWED = {
  "checks.js": "says to who writes a document where it breaks the format",
  "document.js": "likewise",
  "compare/model.js": "likewise, of an alignment",
  "words.js": "says which word is missing",
  "graph/document.js": "names of the format",
  "dom.js": "says to who writes a page what it has not",
  "screen.js": "says to who extends it what is missing",
  "room/words.js": "likewise, of rooms.toml",
  "take/film.js": "media types",
  "draw/text.js": "font stacks",
  "graph/accents.js": "style",
  "timelinelegend.js": "a font",
  "take/pen.js": "paths of an SVG",
};

/** @returns {[string, string][]} names and texts of all modules */
function modules() {
  return ROOTS.flatMap((root) =>
    readdirSync(root, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".js") && !name.endsWith(".min.js"))
      .map((name) => /** @type {[string, string]} */ ([name, readFileSync(new URL(name, root), "utf8")])),
  );
}

/** Calls that take names, selectors or styles, and never words. */
const TAKES_NAMES = /^(find|querySelector(All)?|matches|closest|addEventListener|setProperty|fetch|assert|RegExp|matchMedia|host)$/;

/** Whether a text is words: two of them in a row, as a person writes. @param {string} text */
const isWords = (text) => /(^|\s)[A-Za-z][a-z']+,? [a-z']{2,}/.test(text.replace(/\{\}/g, " "));

/** @param {ts.Node} node @param {(node: ts.Node, text: string) => void} found */
function eachText(node, found) {
  if (ts.isImportDeclaration(node)) {
    return;
  }
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) {
    found(node, node.text);
  } else if (ts.isTemplateExpression(node)) {
    found(node, [node.head.text, ...node.templateSpans.map((span) => span.literal.text)].join("{}"));
  }
  ts.forEachChild(node, (child) => eachText(child, found));
}

/** @param {ts.Node} node */
function isName(node) {
  const call = node.parent;
  if (ts.isPropertyAssignment(call) && call.name === node) {
    return true; // a name that documents have
  }
  if (ts.isBinaryExpression(call) || ts.isCaseClause(call)) {
    return true;
  }
  if (!ts.isCallExpression(call)) {
    return false;
  }
  const called = ts.isPropertyAccessExpression(call.expression) ? call.expression.name.text : call.expression.getText();
  return TAKES_NAMES.test(called) || (called === "make" && call.arguments.indexOf(/** @type {ts.Expression} */ (node)) < 2);
}

test("no module has words of its own", () => {
  /** @type {string[]} */
  const found = [];
  for (const [name, text] of modules().filter(([one]) => !(one in ALLOWED))) {
    const file = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true, ts.ScriptKind.JS);
    eachText(file, (node, said) => {
      if (isWords(said) && !isName(node) && !NAMES.has(said)) {
        found.push(`${name}: ${said}`);
      }
    });
  }
  assert.deepEqual(found, []);
});

/** What documents call things, which modules look for; classes of elements, a command of the debugger. */
const NAMES = new Set(["number sent", "neighbour bound", "input, select, textarea", "check sum"].concat(Object.keys(/** @type {any} */ (globalThis).zerosimWords.words.names)));

test("every key that a module says is there, with what it has braces for", () => {
  const words = /** @type {any} */ (globalThis).zerosimWords.words;
  for (const [name, text] of modules().filter(([one]) => !/^(room|lesson)\//.test(one))) {
    for (const [, key, given] of text.matchAll(/\bsay\(\s*"([^".]+\.[^"]+)"(?:, \{([^()]*)\})?/g)) {
      const at = key.split(".").reduce((/** @type {any} */ from, part) => from?.[part], words);
      assert.ok(typeof at === "string" || typeof at?.other === "string", `${name}: ${key}`);
      const braces = [...(at.other ?? at).matchAll(/\{(\w+)\}/g)].map(([, brace]) => brace);
      for (const brace of given === undefined ? [] : braces) {
        assert.match(given, new RegExp(`\\b${brace}\\b`), `${name}: ${key} has {${brace}}`);
      }
    }
  }
});

test("a number chooses its form, and what is missing is said", () => {
  assert.equal(say("searchfield.beats", { num: 1, more: "" }), "1 beat");
  assert.equal(say("searchfield.beats", { num: 3, more: "" }), "3 beats");
  assert.throws(() => say("searchfield.nothing"), /has no searchfield.nothing/);
  assert.throws(() => say("shared.rank"), /not given rank/);
  assert.equal(named("forward"), "forward");
  assert.equal(named("blocks.0"), "blocks.0");
});
