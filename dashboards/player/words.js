// The player's texts, in the language of its page. The page has them as JSON
// (dashboards/words/player.toml, by module); where there is no page, a test gives them.

/** @typedef {string | {one: string, other: string}} Text one for a number, where its plural differs */
/** @typedef {{[name: string]: Text | Table}} Table */

const inPage = globalThis.document?.getElementById?.("player-words")?.textContent;
/** @type {{language: string, words: Table}} */
const held = inPage ? JSON.parse(inPage) : /** @type {any} */ (globalThis).zerosimWords;

/** The language of the page, as `lang` names it. */
export const language = held?.language ?? "en";
const plurals = new Intl.PluralRules(language);

/** @param {string} key with dots @returns {Text | Table | undefined} */
function found(key) {
  /** @type {any} */
  let at = held?.words;
  for (const part of key.split(".")) {
    at = at?.[part];
  }
  return at;
}

/**
 * A text with its braces filled in. One that differs with a number has it as `num`.
 * @param {string} key its module's name and its own, with dots between
 * @param {Readonly<Record<string, unknown>>} [values]
 */
export function say(key, values = {}) {
  const text = found(key);
  const own = typeof text === "object" ? (plurals.select(Number(values.num)) === "one" ? text.one : text.other) : text;
  if (typeof own !== "string") {
    return missing(`player.toml has no ${key}`, key);
  }
  return own.replace(/\{(\w+)\}/g, (_, name) =>
    name in values ? String(values[name]) : missing(`${key} is not given ${name}`, name),
  );
}

/** A page continues with a substitute; a test fails. @param {string} problem @param {string} instead */
function missing(problem, instead) {
  if (!inPage) {
    throw new Error(problem);
  }
  return instead;
}

/** The displayed name of a term in a document: a phase, a role, a tier, an operator. @param {string} word */
export function named(word) {
  /** @type {any} */
  const names = held?.words?.names;
  return typeof names?.[word] === "string" ? /** @type {string} */ (names[word]) : word;
}
