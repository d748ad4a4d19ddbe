// Checks of parsed JSON, put together like the data: a record of lists of numbers ...

/** A check looks at a value and throws a DocumentError that names it: by the path of what it
 *  belongs to, and its name or number there.
 *  @typedef {(value: unknown, path: string, key?: string | number) => void} Check */

/** The document is invalid for the player; the message is one line for the user. */
export class DocumentError extends Error {
  name = "DocumentError";
}

/** @param {(value: unknown) => boolean} holds @param {string} expected @returns {Check} */
export const leaf = (holds, expected) => (value, path, key) => {
  if (!holds(value)) {
    throw wrong(value, at(path, key), expected);
  }
};

export const text = leaf((value) => typeof value === "string", "a text");
export const flag = leaf((value) => typeof value === "boolean", "true or false");
export const finite = leaf(Number.isFinite, "a number");

/** @param {number} least */
export const atLeast = (least) =>
  leaf((value) => Number.isFinite(value) && Number(value) >= least, `a number from ${least}`);

/** A whole number from `least`, below `end`. @param {number} least @param {number} [end] */
export const whole = (least, end = Number.MAX_SAFE_INTEGER) =>
  leaf(
    (value) => Number.isSafeInteger(value) && Number(value) >= least && Number(value) < end,
    `a whole number from ${least}${end === Number.MAX_SAFE_INTEGER ? "" : ` to ${end - 1}`}`,
  );

/** A whole number from 0, of any size: beyond 2^53 it is not exact. */
export const count = leaf(
  (value) => Number.isInteger(value) && Number(value) >= 0,
  "a whole number from 0",
);

/** A position in a list. @param {number} length */
export const index = (length) => whole(0, length);

/** A position in a list, or -1. @param {number} length */
export const indexOrNone = (length) => whole(-1, length);

/** @param {readonly unknown[]} values */
export const oneOf = (values) =>
  leaf((value) => values.includes(value), values.map((one) => JSON.stringify(one)).join(" or "));

/** @param {Check} check @returns {Check} */
export const nullable = (check) => (value, path, key) => {
  if (value !== null) {
    check(value, path, key);
  }
};

/** @param {Check} check @param {number} [length] @returns {Check} */
export const list = (check, length) => (value, path, key) => {
  const here = at(path, key);
  if (!Array.isArray(value)) {
    throw wrong(value, here, "a list");
  }
  if (length !== undefined && value.length !== length) {
    throw new DocumentError(`${here} has ${value.length} entries: expected ${length}`);
  }
  for (let i = 0; i < value.length; i += 1) {
    check(value[i], here, i);
  }
};

/** A flat list of rows: one check for each number of a row. @param {Check[]} checks @returns {Check} */
export const rows = (checks) => (value, path, key) => {
  const here = at(path, key);
  if (!Array.isArray(value) || value.length % checks.length !== 0) {
    throw new DocumentError(`${here} is not a list of ${checks.length} numbers each`);
  }
  for (let i = 0; i < value.length; i += 1) {
    checks[i % checks.length](value[i], here, i);
  }
};

/** @param {Record<string, Check>} fields @returns {Check} */
export const record = (fields) => {
  const entries = Object.entries(fields);
  return (value, path, key) => {
    const here = at(path, key);
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw wrong(value, here || "the document", "an object");
    }
    const object = /** @type {Record<string, unknown>} */ (value);
    for (const [name, check] of entries) {
      check(object[name], here, name);
    }
  };
};

/** The location of a value. Only called on the way to an error or into a list: it is slow.
 *  @param {string} path @param {string | number | undefined} key */
export function at(path, key) {
  if (typeof key === "number") {
    return `${path}[${key}]`;
  }
  return path && key ? `${path}.${key}` : path || (key ?? "");
}

/** @param {unknown} value @param {string} path @param {string} expected */
function wrong(value, path, expected) {
  if (value === undefined) {
    return new DocumentError(`${path} is missing: expected ${expected}`);
  }
  const shown = JSON.stringify(value);
  const short = shown.length > 40 ? `${shown.slice(0, 40)}…` : shown;
  return new DocumentError(`${path} is ${short}: expected ${expected}`);
}
