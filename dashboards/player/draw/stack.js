// Memory as stacked areas: sums by role, thinned to the resolution of a screen. Pure.

import { named } from "#player/words.js";

/** @import { RankMemory } from "#player/types.d.ts" */

/** @typedef {{times: number[], tops: Float64Array[]}} Stack tops by role, then by time */

/** Whether a role is drawn hatched, as gathered shards are. @param {string} role */
export function isGathered(role) {
  return role.includes("gathered");
}

/** A role's name for little room: "gathered" of "gathered parameters". @param {string} role */
export function shortRole(role) {
  return named(brief(role));
}

/** The name of a card's band. @param {Pick<import("#player/types.d.ts").State, "name" | "role">} state */
export function bandName({ name, role }) {
  return name || shortRole(role);
}

/** The same as documents call it. @param {string} role */
function brief(role) {
  return SHORT.get(role) ?? role;
}

const SHORT = new Map([
  ["fp32 master", "master"],
  ["optimizer states", "optimizer"],
  ["gathered parameters", "gathered"],
  ["communication buffers", "buffers"],
  ["secondary parameters", "secondary"],
  ["activation checkpoints", "checkpoints"],
  ["library workspaces", "workspaces"],
]);

/** Optimizer states: one entry of a legend if three have no room. */
const OPTIMIZER = ["master", "momentum", "variance"];

/** @typedef {{label: string, roles: string[]}} Entry */

/**
 * Entries of the legend, in the order in which the roles lie on each other.
 * @param {readonly string[]} roles
 * @param {boolean} isBrief the optimizer states as one
 * @returns {Entry[]}
 */
export function legendEntries(roles, isBrief) {
  /** @type {Entry[]} */
  const entries = [];
  for (const role of roles) {
    const label = brief(role);
    const last = entries.at(-1);
    if (isBrief && OPTIMIZER.includes(label)) {
      if (last?.label === "optimizer") {
        last.roles.push(role);
        continue;
      }
      entries.push({ label: "optimizer", roles: [role] });
    } else {
      entries.push({ label, roles: [role] });
    }
  }
  return entries.map(({ label, roles: own }) => ({ label: named(label), roles: own }));
}

/**
 * Upper edges of the areas. Of the samples that fall on the same pixel the one with the most bytes
 * is kept, so that no peak is lost.
 * @param {RankMemory} memory
 * @param {number} duration
 * @param {number} width in pixels
 * @returns {Stack}
 */
export function stackOf({ times_ns, bytes }, duration, width) {
  const count = times_ns.length;
  const totals = new Float64Array(count);
  for (const role of bytes) {
    for (let i = 0; i < count; i += 1) {
      totals[i] += role[i];
    }
  }
  /** @type {number[]} */
  const kept = [];
  let lastPixel = NaN;
  for (let i = 0; i < count; i += 1) {
    const pixel = Math.floor((times_ns[i] / duration) * width);
    if (pixel !== lastPixel) {
      kept.push(i);
      lastPixel = pixel;
    } else if (totals[i] > totals[kept[kept.length - 1]]) {
      kept[kept.length - 1] = i;
    }
  }
  const sums = new Float64Array(kept.length);
  const tops = bytes.map((role) => {
    for (const [k, i] of kept.entries()) {
      sums[k] += role[i];
    }
    return sums.slice();
  });
  return { times: kept.map((i) => times_ns[i]), tops };
}
