// The source of the document: the page itself, or its server; and the message if it cannot be loaded.

import { make } from "#player/dom.js";
import { say } from "#player/words.js";

/** The document cannot be loaded; `hint` has advice. */
export class LoadError extends Error {
  /** @param {string} message @param {string} hint */
  constructor(message, hint) {
    super(message);
    this.hint = hint;
  }
}

/**
 * @typedef {object} Source
 * @property {boolean} embedded in an offline page
 * @property {() => Promise<unknown>} load the parsed document
 */

/**
 * A document that the page itself holds.
 * @param {string} text
 * @returns {Source}
 */
export function embeddedSource(text) {
  return {
    embedded: true,
    async load() {
      try {
        return JSON.parse(text);
      } catch {
        throw new LoadError(say("load.this_page_s_replay_is_damaged"), say("load.export_the_page_again"));
      }
    },
  };
}

/** Whether this page is a file, without a server. */
export function isOffline() {
  return "offline" in document.documentElement.dataset;
}

/**
 * A document that a server gives, or the page that was made of its pages.
 * @param {string} address with its query
 * @returns {Source}
 */
export function serverSource(address) {
  if (isOffline()) {
    const held = [...document.querySelectorAll("script[data-address]")];
    const asked = held.find(
      (one) => one instanceof HTMLElement && plain(one.dataset.address ?? "") === plain(address),
    );
    // A page in a frame of such a file has an address of its own, without a query.
    return embeddedSource((asked ?? (held.length === 1 ? held[0] : null))?.textContent ?? "");
  }
  return { embedded: false, load: () => fetchDocument(address) };
}

/** An address in one writing: Python's and a browser's differ. @param {string} address */
function plain(address) {
  return decodeURIComponent(address.replaceAll("+", " "));
}

/** @param {string} address @returns {Promise<unknown>} */
async function fetchDocument(address) {
  let response;
  try {
    response = await fetch(address);
  } catch {
    throw new LoadError(
      say("load.the_server_does_not_answer"),
      say("load.start_it_again_where_it_was"),
    );
  }
  /** @type {any} */
  const body = await response.json().catch(() => null);
  if (!response.ok || body === null) {
    const reason = typeof body?.error === "string" ? body.error : say("load.the_server_answers", { status: response.status });
    throw new LoadError(reason, say("load.choose_another_run_or_iteration_or"));
  }
  return body;
}

/**
 * Why something cannot be shown, as elements.
 * @param {string} title
 * @param {unknown} error
 * @param {string} hint what to try, where the error does not say
 */
export function failure(title, error, hint) {
  return [
    make("h1", "", title),
    make("p", "reason", error instanceof Error ? error.message : String(error)),
    make("p", "", error instanceof LoadError ? error.hint : hint),
  ];
}
