// The lecturer's requests to the server, and the responses.

import { say } from "#player/room/words.js";

/**
 * @typedef {object} Opened
 * @property {string} code
 * @property {string} key
 *
 * @typedef {object} Bar
 * @property {string} label
 * @property {number} first how many gave this answer first
 * @property {number} latest how many stay with it
 * @property {boolean} is_right
 *
 * @typedef {object} Thought a misconception
 * @property {string} name
 * @property {number} first
 * @property {number} latest
 *
 * @typedef {object} Tally
 * @property {string} lesson "" if the class is at none
 * @property {string} question
 * @property {boolean} reveal
 * @property {boolean} solved
 * @property {number} num_students
 * @property {number} num_answered
 * @property {number} left_s
 * @property {string} [words] of the question; this and what follows only if the class is at one
 * @property {string} [unit]
 * @property {string[]} [choices]
 * @property {string} [explain]
 * @property {Bar[]} [bars]
 * @property {Thought[]} [thoughts]
 * @property {number} [right_first]
 * @property {number} [right_latest]
 *
 * @typedef {object} Pointed where the class is
 * @property {true} open
 * @property {string} code
 * @property {string} lesson
 * @property {string} question
 * @property {string} title
 * @property {number} step of the lesson that asks the question; 0 if the class is at none
 * @property {boolean} reveal
 * @property {string[]} told questions, as lesson/question, with answers that were shown
 */

/** The server refuses; `status` is 0 if it does not answer at all. */
export class Refused extends Error {
  /** @param {string} message @param {number} status */
  constructor(message, status) {
    super(message);
    this.status = status;
  }

  /** Whether there is no such room, or none any more. */
  get isGone() {
    return this.status === 404;
  }
}

/** @returns {Promise<Opened>} */
export function openRoom() {
  return ask("POST", "/api/rooms", {});
}

/** @param {Opened} room @param {{lesson: string, question: string, reveal: boolean, solved: boolean}} pointed */
export function showInRoom({ code, key }, pointed) {
  return ask("POST", `${addressOf(code)}/show`, { key, ...pointed });
}

/** @param {Opened} room @returns {Promise<Tally>} */
export function tallyOf({ code, key }) {
  return ask("GET", `${addressOf(code)}/tally?key=${encodeURIComponent(key)}`);
}

/** @param {Opened} room */
export function closeRoom({ code, key }) {
  return ask("DELETE", addressOf(code), { key });
}

/**
 * The position of the class; the requesting page counts as being in the room.
 * @param {string} code
 * @param {string} who
 * @returns {Promise<Pointed | {open: false}>}
 */
export function lookAt(code, who) {
  return ask("GET", `${addressOf(code)}?who=${encodeURIComponent(who)}`);
}

/** @param {string} code */
function addressOf(code) {
  return `/api/rooms/${encodeURIComponent(code)}`;
}

/** @param {string} method @param {string} address @param {object} [body] @returns {Promise<any>} */
async function ask(method, address, body) {
  let response;
  try {
    const sent = body && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
    response = await fetch(address, { method, cache: "no-store", ...sent });
  } catch {
    throw new Refused(say("both", "no_server"), 0);
  }
  /** @type {any} */
  const answer = await response.json().catch(() => null);
  if (!response.ok || answer === null) {
    throw new Refused(typeof answer?.error === "string" ? answer.error : say("both", "no_server"), response.status);
  }
  return answer;
}
