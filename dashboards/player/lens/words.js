// The magnifier's words for each rank. Pure.

import { doing } from "#player/draw/moment.js";
import { formatBytes, formatWait } from "#player/format.js";
import { waitedAt } from "#player/frames.js";
import { isPipeline, turnIn } from "#player/lens/flight.js";
import { lettersOf } from "#player/lens/letters.js";
import { named, say } from "#player/words.js";

/** @import { Magnified } from "#player/lens/magnify.js" */
/** @import { Model } from "#player/scene.d.ts" */
/** @import { Collective } from "#player/types.d.ts" */

const [KEPT, GATHERED, ARRIVING, PARTIAL, SUMMED, REDUCED] = [1, 2, 3, 4, 5, 6];

/**
 * A line on a rank.
 * @param {Model} model
 * @param {number} position
 * @param {number} rank
 * @param {boolean} hops
 * @param {Omit<Magnified, "words">} magnified
 */
export function wordsOf(model, position, rank, hops, magnified) {
  const { doc } = model;
  const step = doc.steps[position];
  if (!step.ranks.includes(rank)) {
    return step.kind === "mark" ? heldWords(model, rank, magnified) : waitWords(model, position, rank, hops);
  }
  if (magnified.call) {
    // of ranks that are alike one is recorded
    const isAll = step.ranks.length === doc.ranks.length;
    return callWords(doc.collectives[step.collective], isAll ? doc.run.num_ranks : step.ranks.length);
  }
  if (magnified.packets.length > 0) {
    return moveWords(model, position, rank, magnified);
  }
  if (step.copies.length > 0) {
    return copyWords(model, position, rank);
  }
  return heldWords(model, rank, magnified);
}

/** @param {Model} model @param {number} position @param {number} rank @param {boolean} hops */
function waitWords(model, position, rank, hops) {
  const waited = waitedAt(model, position, rank, hops);
  return waited > 0 ? formatWait(waited, model.doc.run.is_predicted) : say("lens.words.takes_no_part");
}

/**
 * Each rank's input and output of a call; the hops in between are unknown.
 * @param {Collective} call
 * @param {number} count of ranks
 */
function callWords({ op, payload_bytes: payload }, count) {
  const [whole, part] = [formatBytes(payload), formatBytes(payload / count)];
  switch (op) {
    case "all-gather":
      return say("lens.words.puts_in_gets", { part, whole });
    case "reduce-scatter":
      return say("lens.words.puts_in_gets_the_sum_of", { whole, part });
    case "all-reduce":
      return say("lens.words.puts_in_gets_the_sum_of_2", { whole });
    case "broadcast":
      return say("lens.words.one_rank_s_come_to_all", { whole });
    default:
      return say("lens.words.of", { op: named(op), whole });
  }
}

/** @param {Model} model @param {number} position @param {number} rank @param {Omit<Magnified, "words">} magnified */
function moveWords({ doc, numShards }, position, rank, { tiles, packets, rows }) {
  const { purpose } = doc.steps[position];
  const own = tiles[rank][0] ?? [];
  /** @param {number} code */
  const having = (code) => own.filter((tile) => tile.code === code).map(({ shard }) => shard);
  const [kept, held] = [having(KEPT), having(GATHERED)];
  const come = packets.filter(({ to }) => to === rank);
  const gone = packets.filter(({ from }) => from === rank);
  const comes = lettersOf(come.flatMap(({ shards }) => shards).sort((a, b) => a - b));
  const goes = lettersOf([...new Set(gone.flatMap(({ shards }) => shards))].sort((a, b) => a - b));
  const who = come.filter(({ from }) => from >= 0).map(({ from }) => doc.ranks[from]).join(", ");
  if (packets.every((one) => one.bytes === 0)) {
    return come.length > 0 ? say("lens.words.waits_for", { who }) : "";
  }
  const bytes = formatBytes(come.reduce((sum, one) => sum + one.bytes, 0));
  if (rows.length === 0 || comes + goes === "") {
    return [gone.length > 0 && say("lens.words.sends", { value: formatBytes(gone.reduce((sum, one) => sum + one.bytes, 0)) }), come.length > 0 && say("lens.words.receives_from", { bytes, who })].filter(Boolean).join(" · ");
  }
  const isSum = purpose === "reduce gradients" && come.some(({ from, shards }) => from >= 0 && !isWhole(tiles[from][0], shards));
  if (purpose === "reduce gradients") {
    const done = having(REDUCED);
    return [done.length > 0 && say("lens.words.has_the_sum_of", { done: lettersOf(done) }), goes && say("lens.words.sends_2", { goes }), comes && (isSum ? say("lens.words.adds", { comes }) : say("lens.words.receives", { comes }))].filter(Boolean).join(" · ");
  }
  return [
    kept.length > 0 && (kept.length === numShards ? say("lens.words.keeps", { kept: lettersOf(kept) }) : say("lens.words.owns", { kept: lettersOf(kept) })),
    held.length > 0 && say("lens.words.has", { held: lettersOf(held) }),
    comes && say("lens.words.receives", { comes }),
  ].filter(Boolean).join(" · ");
}

/** Whether shards that are sent are sums of all ranks already.
 *  @param {Magnified["tiles"][number][number]} row @param {readonly number[]} shards */
function isWhole(row, shards) {
  return shards.every((shard) => row[shard].code === REDUCED);
}

/** @param {Model} model @param {number} position @param {number} rank */
function copyWords({ doc }, position, rank) {
  const { copies, origin, target } = doc.steps[position];
  let bytes = 0;
  for (let i = 0; i < copies.length; i += 4) {
    bytes += copies[i] === rank ? copies[i + 1] : 0;
  }
  return bytes > 0 ? say("lens.words.from_to", { bytes: formatBytes(bytes), origin: named(origin), target: named(target) }) : say("lens.words.copies_nothing");
}

/** The contents of a rank, if nothing moves. @param {Model} model @param {number} rank
 *  @param {Omit<Magnified, "words">} magnified */
function heldWords({ numShards }, rank, { tiles }) {
  const own = tiles[rank][0] ?? [];
  /** @param {number[]} codes */
  const having = (...codes) => lettersOf(own.filter((tile) => codes.includes(tile.code) && tile.isAll).map(({ shard }) => shard));
  const kept = own.filter(({ code, isAll }) => code === KEPT && isAll).length;
  const given = own.filter(({ isFreed }) => isFreed);
  const freed = given.length > 0 && say(given[0].code === GATHERED ? "lens.words.frees" : "lens.words.has_freed", { shards: lettersOf(given.map(({ shard }) => shard)) });
  const held = freed ? "" : having(GATHERED);
  const parts = [
    kept > 0 && say(kept === numShards ? "lens.words.keeps" : "lens.words.owns", { kept: having(KEPT) }),
    held && say("lens.words.has", { held }),
    freed,
    having(ARRIVING) && say("lens.words.receives_2", { arriving: having(ARRIVING) }),
    having(REDUCED) && say("lens.words.has_the_sum_of", { done: having(REDUCED) }),
    having(PARTIAL, SUMMED) && say("lens.words.its_own_gradient_of", { partial: having(PARTIAL, SUMMED) }),
  ];
  return parts.filter(Boolean).join(" · ");
}

/** What a rank does beside: "computes", "forward 4", "waits 3.8 ms"; "" if nothing is to be said.
 *  @param {Model} model @param {number} position @param {number} rank @param {boolean} hops */
export function besides(model, position, rank, hops) {
  const { doc } = model;
  const turn = hops || !isPipeline(model) ? null : turnIn(model, position, rank);
  if (turn) {
    return `${named(turn.phase)} ${turn.micro + 1}`;
  }
  const step = doc.steps[position];
  const waited = waitedAt(model, position, rank, hops);
  const word = doing(step, rank);
  return word === "waits" || (word === "" && waited > 0) ? formatWait(waited, doc.run.is_predicted) : named(word);
}
