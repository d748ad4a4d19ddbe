// The page's state in the URL's fragment: a link reproduces the screen. Unknown parts and values out of range
// are ignored.

import { ALL, edgeKindsIn, kindsIn, phasesIn, unitsIn } from "#player/graph/filter.js";

/** @import { Theme } from "#player/colours.js" */
/** @import { Filter } from "#player/graph/filter.js" */
/** @import { GraphModel } from "#player/graph/model.js" */

export const TABLES = /** @type {const} */ (["path", "ranks", "exposed", "waited"]);

/**
 * @typedef {object} GraphPlace
 * @property {number} selected a node; -1; `event` in the URL is its number from 1
 * @property {Filter} filter
 * @property {number} from ns
 * @property {number} to
 * @property {(typeof TABLES)[number]} table
 * @property {Theme | null} theme null: as the system wants it
 * @property {boolean} present
 */

/**
 * Parse a fragment; missing parts have their defaults.
 * @param {string} hash with or without the "#"
 * @param {GraphModel} model
 * @param {Theme | null} theme as it was chosen last
 * @returns {GraphPlace}
 */
export function parseGraphPlace(hash, model, theme) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const { duration_ns: duration, ranks } = model.doc;
  /** @param {string} name @param {readonly string[]} known */
  const among = (name, known) => known.find((one) => one === fields.get(name)) ?? "";
  const event = Number(fields.get("event"));
  const [from, to] = [Number(fields.get("from") ?? 0), Number(fields.get("to") ?? duration)];
  const isWindow = from >= 0 && to > from;
  const only = (fields.get("only") ?? "").split(",");
  const edges = fields.get("edges");
  const chosen = edges === null ? ALL.edges : edgeKindsIn(model).filter((kind) => edges.split(",").includes(kind));
  return {
    selected: Number.isInteger(event) && event >= 1 && event <= model.numNodes ? event - 1 : -1,
    filter: {
      kind: among("kind", kindsIn(model)),
      phase: among("phase", phasesIn(model)),
      unit: among("unit", unitsIn(model)),
      rank: ranks.findIndex((one) => String(one) === fields.get("rank")),
      critical: only.includes("critical") && model.doc.path !== null,
      waits: only.includes("waits"),
      edges: chosen,
    },
    from: isWindow ? Math.min(from, duration) : 0,
    to: isWindow ? Math.min(to, duration) : duration,
    table: TABLES.find((one) => one === fields.get("table")) ?? "path",
    theme: fields.get("theme") === "light" ? "light" : fields.get("theme") === "dark" ? "dark" : theme,
    present: fields.get("mode") === "present",
  };
}

/**
 * Write a fragment; defaults are omitted.
 * @param {GraphPlace} place
 * @param {GraphModel} model
 * @returns {string} with the "#"; "" if all is as usual
 */
export function formatGraphPlace({ selected, filter, from, to, table, theme, present }, model) {
  /** @type {[string, string][]} */
  const fields = [];
  /** @param {string} name @param {string | number} value @param {boolean} said */
  const say = (name, value, said) => said && fields.push([name, String(value)]);
  const only = [filter.critical && "critical", filter.waits && "waits"].filter(Boolean).join(",");
  const edges = filter.edges.join(",");
  say("event", selected + 1, selected >= 0);
  say("from", Math.round(from), from > 0 || to < model.doc.duration_ns);
  say("to", Math.round(to), from > 0 || to < model.doc.duration_ns);
  say("kind", filter.kind, filter.kind !== "");
  say("phase", filter.phase, filter.phase !== "");
  say("unit", filter.unit, filter.unit !== "");
  say("rank", model.doc.ranks[filter.rank], filter.rank >= 0);
  say("only", only, only !== "");
  say("edges", edges, edges !== ALL.edges.join(","));
  say("table", table, table !== "path");
  say("mode", "present", present);
  say("theme", theme ?? "", theme !== null);
  const text = new URLSearchParams(fields).toString();
  return text && `#${text}`;
}

/**
 * Where a step is replayed.
 * @param {GraphModel} model
 * @param {number} node
 * @param {Pick<GraphPlace, "theme" | "present">} place
 * @returns {string | null} null where the iteration cannot be replayed
 */
export function replayAddress({ doc }, node, { theme, present }) {
  const step = doc.nodes.step[node];
  if (step < 0) {
    return null;
  }
  const query = new URLSearchParams({ trace: doc.name });
  if (doc.iteration >= 0) {
    query.set("iteration", String(doc.iteration));
  }
  const fragment = new URLSearchParams({ at: String(step + 1) });
  const rank = doc.ranks[doc.nodes.rank[node]];
  if (doc.nodes.rank[node] > 0) {
    fragment.set("rank", String(rank));
  }
  if (present) {
    fragment.set("mode", "present");
  }
  if (theme !== null) {
    fragment.set("theme", theme);
  }
  return `/replay?${query}#${fragment}`;
}
