// Tensor parallel in the magnifier: of each weight of a unit the columns or rows that a rank holds. Pure.

import { joinDots } from "#player/format.js";
import { say } from "#player/words.js";

/** @import { Magnified, Tile } from "#player/lens/magnify.js" */
/** @import { Model } from "#player/scene.d.ts" */
/** @import { CellCode, Matrix } from "#player/types.d.ts" */

const [ABSENT, KEPT] = /** @type {CellCode[]} */ ([0, 1]);

/**
 * The rows and tiles of the unit of a step; null where none of its weights is cut.
 * @param {Model} model
 * @param {number} position
 * @returns {Pick<Magnified, "rows" | "tiles" | "caption"> | null}
 */
export function matricesAt({ doc }, position) {
  const { unit_name: unit } = doc.steps[position];
  const own = doc.matrices.filter(({ unit_name: name }) => name !== "" && name === unit);
  if (own.length === 0) {
    return null;
  }
  return {
    caption: joinDots([unit, say("lens.matrices.weights_cut_by_columns_or_rows", { own: own.length, num_parts: own[0].num_parts })]),
    rows: own.map((matrix) => ({ label: labelOf(matrix, unit), states: [], isStacked: matrix.style === "row" })),
    tiles: doc.ranks.map((_, rank) => own.map((matrix) => tilesOf(matrix, rank))),
  };
}

/** @param {Matrix} matrix @param {string} unit */
function labelOf({ module, style }, unit) {
  const name = module === unit ? module : module.slice(unit.length + 1);
  const last = name.split(".").at(-1) ?? name;
  return `${/^\d+$/.test(last) ? name : last}: ${style}s`;
}

/** @param {Matrix} matrix @param {number} rank @returns {Tile[]} */
function tilesOf({ num_parts: count, parts }, rank) {
  return Array.from({ length: count }, (_, shard) => {
    const code = parts[rank] === shard ? KEPT : ABSENT;
    return { shard, hue: shard, code, isAll: true, sum: "", isFreed: false, becomes: code };
  });
}
