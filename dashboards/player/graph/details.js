// The selected event: its description, the edge that bound it, its neighbours to walk to. Without one, the
// parts of the critical path.

import { find, make, write } from "#player/dom.js";
import { formatDuration, formatExact, formatTime, joinDots } from "#player/format.js";
import { replayAddress } from "#player/graph/address.js";
import { shareBar } from "#player/graph/ranks.js";
import { labelOf, wordsOf } from "#player/graph/model.js";
import { neighbours } from "#player/graph/walk.js";
import { CAUSE_WORDS, KIND_WORDS, TEXTS } from "#player/graph/words.js";
import { named, say } from "#player/words.js";

/** @import { GraphPlace } from "#player/graph/address.js" */
/** @import { GraphModel } from "#player/graph/model.js" */

/** Neighbours that are listed, each way. */
const MOST = 12;

/**
 * @param {HTMLElement} root
 * @param {GraphModel} model
 * @param {(node: number) => void} select
 */
export function createDetails(root, model, select) {
  const title = find(root, "#event-title", HTMLElement);
  const body = find(root, "#event-body", HTMLElement);
  const link = find(root, "#replay-link", HTMLAnchorElement);
  let shown = NaN;

  body.addEventListener("click", ({ target }) => {
    const button = target instanceof Element ? target.closest("[data-node]") : null;
    if (button instanceof HTMLElement) {
      select(Number(button.dataset.node));
    }
  });

  /** @param {GraphPlace} place */
  return function update(place) {
    const { selected } = place;
    const address = selected < 0 ? null : replayAddress(model, selected, place);
    link.hidden = address === null;
    link.href = address ?? "";
    if (selected === shown) {
      return;
    }
    shown = selected;
    write(title, selected < 0 ? TEXTS.notSelected : labelOf(model, selected));
    body.replaceChildren(...(selected < 0 ? wholePath(model) : ofNode(model, selected)));
    body.scrollTop = 0;
  };
}

/** @param {GraphModel} model @returns {HTMLElement[]} */
function wholePath({ doc }) {
  const { path, causes } = doc;
  if (path === null) {
    return [make("p", "", TEXTS.noPath)];
  }
  const shares = path.by_cause_ns.map((ns, code) => ({ sort: SORTS[causes[code]], ns }));
  const rows = path.by_cause_ns.map((ns, code) => {
    const key = make("i", `key ${SORTS[causes[code]]}`);
    key.setAttribute("aria-hidden", "true");
    const words = make("span", "", make("b", "", named(causes[code])), ` ${CAUSE_WORDS[causes[code]]}`);
    return make("li", "", key, words, make("span", "figure", formatDuration(ns)));
  });
  return [
    make("p", "why-text", [TEXTS.notSelectedWhat, doc.is_predicted && TEXTS.timesPredicted].filter(Boolean).join(" ")),
    shareBar(shares, path.duration_ns),
    make("ul", "shares", ...rows),
  ];
}

/** Textures of causes: the same as of a rank's time. */
const SORTS = /** @type {const} */ ({
  compute: "compute",
  communication: "still",
  scheduling: "missing",
  other: "other",
  copying: "copying",
});

/** @param {GraphModel} model @param {number} node @returns {HTMLElement[]} */
function ofNode(model, node) {
  const { doc, kinds, start, end } = model;
  const { ranks, nodes } = doc;
  const rank = ranks[nodes.rank[node]];
  const kind = kinds[node];
  const who = kind === "collective" ? TEXTS.lastRank(rank) : TEXTS.rank(rank);
  const facts = make("dl", "facts-of");
  /** @param {string} name @param {string} value */
  const fact = (name, value) => facts.append(make("div", "", make("dt", "", name), make("dd", "", value)));
  /** @param {number} ns */
  const time = (ns) => formatTime(ns, doc.is_predicted);
  fact(TEXTS.facts.begins, time(start[node]));
  if (end[node] > start[node]) {
    fact(TEXTS.facts.ends, time(end[node]));
    fact(TEXTS.facts.lasts, time(end[node] - start[node]));
  }
  fact(TEXTS.facts.slack, slackOf(model, node));
  if (model.onPathNs[node] > 0) {
    fact(TEXTS.facts.path, time(model.onPathNs[node]));
  }
  if (nodes.bytes[node] > 0) {
    fact(TEXTS.facts.bytes, `${formatExact(nodes.bytes[node])} B`);
  }
  const { before, after } = neighbours(model, node);
  const parts = [
    make("p", "small", joinDots([who, named(doc.phases[nodes.phase[node]]), KIND_WORDS[kind]])),
    make("p", "why-text", reasonOf(model, node)),
    facts,
    ...neighbourList(model, TEXTS.before, before, doc.edges.source, doc.edges.binding[node]),
    ...neighbourList(model, TEXTS.after, after, doc.edges.target, -1),
  ];
  if (nodes.source[node] >= 0) {
    parts.push(make("p", "source", TEXTS.source(doc.texts[nodes.source[node]])));
  }
  if (nodes.step[node] < 0) {
    parts.push(make("p", "small", TEXTS.cannotReplay));
  }
  return parts;
}

/** @param {GraphModel} model @param {number} node */
export function slackOf({ doc, onPath }, node) {
  const slack = doc.nodes.slack[node];
  if (slack < 0) {
    return TEXTS.slackUnknown;
  }
  return onPath[node] ? TEXTS.critical : formatTime(slack, doc.is_predicted);
}

/**
 * The last dependency of an event, and its reason, in a sentence.
 * @param {GraphModel} model
 * @param {number} node
 */
export function reasonOf(model, node) {
  const { doc, at, start, moving, rank, kinds, collectives } = model;
  const edge = doc.edges.binding[node];
  if (edge < 0) {
    return TEXTS.nothingBefore;
  }
  const source = doc.edges.source[edge];
  const ready = doc.edges.ready[edge];
  /** @param {number} ns */
  const time = (ns) => formatTime(ns, doc.is_predicted);
  const parts = [TEXTS.bound(wordsOf(model, edge), withRank(model, source, rank[node]), time(ready))];
  if (at[node] > ready) {
    parts.push(TEXTS.lag(time(at[node] - ready)));
  }
  const collective = collectives.get(doc.nodes.collective[node]);
  if (kinds[node] === "call" && moving[node] > start[node] && collective !== undefined) {
    const early = time(moving[node] - start[node]);
    parts.push(TEXTS.waitedFor(early, doc.ranks[rank[collective]]));
  }
  return parts.join(" ");
}

/** A node's name, with its rank where that is another one. @param {GraphModel} model
 *  @param {number} node @param {number} rank */
function withRank(model, node, rank) {
  const own = model.rank[node];
  const where = own === rank || model.kinds[node] === "collective" ? "" : say("graph.details.on_rank", { rank: model.doc.ranks[own] });
  return `${labelOf(model, node)}${where}`;
}

/**
 * @param {GraphModel} model
 * @param {string} name
 * @param {readonly number[]} edges
 * @param {readonly number[]} ends which end of an edge is the neighbour
 * @param {number} bound
 * @returns {HTMLElement[]}
 */
function neighbourList(model, name, edges, ends, bound) {
  if (edges.length === 0) {
    return [];
  }
  const { doc, rank } = model;
  const items = edges.slice(0, MOST).map((edge) => {
    const node = ends[edge];
    const button = make("button", edge === bound ? "neighbour bound" : "neighbour", labelOf(model, node));
    button.type = "button";
    button.dataset.node = String(node);
    button.title = edge === bound ? TEXTS.binding : wordsOf(model, edge);
    const why = make("span", "small", joinDots([TEXTS.rank(doc.ranks[rank[node]]), wordsOf(model, edge)]));
    return make("li", "", button, why);
  });
  if (edges.length > MOST) {
    items.push(make("li", "", make("span", "small", TEXTS.more(edges.length - MOST))));
  }
  return [make("h3", "", name), make("ul", "neighbours", ...items)];
}
