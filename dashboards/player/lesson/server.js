// The page's requests to the server: JSON, or an error in one line.

/** The server refuses, or does not answer. */
export class NoAnswer extends Error {}

/**
 * The feedback on an answer: that it is invalid, that it is held back in a room, or whether it is right.
 * @typedef {{problem: string} | {held: true, room: string} | Verdict} Said
 *
 * @typedef {object} Verdict
 * @property {boolean} right
 * @property {string} headline
 * @property {string} words HTML of our own
 * @property {string} [room] what became of the answer in the reader's room
 */

/** @typedef {{blocks: {id: string, html: string}[]}} Rest */
/** @typedef {{words: string}} Explained */
/** @typedef {{ticket: string, state: "waiting" | "running" | "done" | "failed", seconds: number,
 *  before: number, problem: string}} Recording */

/** For a busy server; a missing one fails at once. */
const LONGEST_MS = 120_000;

/**
 * @param {string} address
 * @param {string} silence the message if no answer arrives
 * @param {object} [body] what is sent; nothing is only asked
 * @returns {Promise<any>}
 * @throws {NoAnswer}
 */
export async function ask(address, silence, body) {
  let response;
  try {
    response = await fetch(address, {
      signal: AbortSignal.timeout(LONGEST_MS),
      ...(body && {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body),
      }),
    });
  } catch {
    throw new NoAnswer(silence);
  }
  const text = await response.text().catch(() => "");
  /** @type {any} */
  let plain = null;
  try {
    plain = JSON.parse(text);
  } catch {
    // A refusal is one line of text.
  }
  if (!response.ok || plain === null) {
    throw new NoAnswer(plain?.error ?? (text.trim().split("\n")[0] || silence));
  }
  return plain;
}

/**
 * The server's HTML of its own lessons, as elements. No script in it would run.
 * @param {string} html
 * @returns {Node[]}
 */
export function toNodes(html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  return [...parsed.body.childNodes].map((node) => document.importNode(node, true));
}
