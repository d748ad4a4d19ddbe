// Rules of the player: what a browser would forgive and a reader would not.

import js from "@eslint/js";
import globals from "globals";

/** The page, the offline page and Node resolve `#player/...`, each in its own way, and no more. */
const PORTABLE = [
  {
    selector: ":matches(ImportDeclaration, ExportNamedDeclaration, ExportAllDeclaration)" +
      " > Literal.source[value=/^\\./]",
    message: 'Import by "#player/...": the offline page has no folders.',
  },
  { selector: "ImportExpression", message: "Import at the top: the offline page has no folders." },
  {
    selector: "MetaProperty[meta.name='import']",
    message: "In the offline page import.meta.url is a data: URL.",
  },
  {
    selector: "Program > ExpressionStatement > AwaitExpression",
    message: "No top-level await: it holds up the modules that import this one.",
  },
];

/** A document's texts are never markup. */
const TEXT_ONLY = ["innerHTML", "outerHTML", "insertAdjacentHTML"].map((property) => ({
  property,
  message: "Set textContent: a trace's names are not markup.",
}));

export default [
  { ignores: [".venv/", "build/", "dist/", "traces/", "docs/", "zerosim/", "**/*.min.js"] },
  js.configs.recommended,
  {
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      curly: "error",
      eqeqeq: "error",
      "no-implicit-coercion": "error",
      "no-param-reassign": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
    },
  },
  {
    files: ["dashboards/player/**/*.js"],
    languageOptions: { globals: globals.browser },
    rules: {
      "no-console": "error",
      "no-restricted-properties": ["error", ...TEXT_ONLY],
      "no-restricted-syntax": ["error", ...PORTABLE],
    },
  },
  { files: ["tests/player/**/*.js", "eslint.config.js"], languageOptions: { globals: globals.node } },
];
