// Packets: which ranks send to which in a step, the arcs between them, and where on its arc a
// packet is at a moment. Pure; draws nothing.

/** @import { Step } from "#player/types.d.ts" */

/**
 * All that one rank sends to another in a step.
 * @typedef {object} Edge
 * @property {number} from position of the rank; -1 if the trace has it not
 * @property {number} to
 * @property {number} shard -1 if unknown or several
 * @property {number} bytes
 * @property {number} start_ns
 * @property {number} end_ns
 */

/** A cubic curve. @typedef {readonly [number, number, number, number, number, number, number, number]} Arc */

/**
 * Messages of a step, those between the same two ranks as one.
 * @param {Step} step
 * @returns {Edge[]}
 */
export function edgesOf({ packets }) {
  /** @type {Map<string, Edge>} */
  const edges = new Map();
  for (let i = 0; i < packets.length; i += 6) {
    const [from, to, shard, bytes, start_ns, end_ns] = packets.slice(i, i + 6);
    const key = `${from}>${to}`;
    const edge = edges.get(key);
    if (edge) {
      edge.bytes += bytes;
      edge.shard = edge.shard === shard ? shard : -1;
      edge.start_ns = Math.min(edge.start_ns, start_ns);
      edge.end_ns = Math.max(edge.end_ns, end_ns);
    } else {
      edges.set(key, { from, to, shard, bytes, start_ns, end_ns });
    }
  }
  return [...edges.values()];
}

/**
 * How far a packet has come, 0 to 1. At rest every packet is half-way.
 * @param {Edge} edge
 * @param {number} start_ns of the step
 * @param {number} end_ns
 * @param {number | null} tween
 */
export function progress(edge, start_ns, end_ns, tween) {
  if (tween === null) {
    return 0.5;
  }
  const now = start_ns + tween * (end_ns - start_ns);
  const span = edge.end_ns - edge.start_ns;
  if (!(span > 0) || !(end_ns > start_ns)) {
    return ease(tween);
  }
  return ease(Math.min(1, Math.max(0, (now - edge.start_ns) / span)));
}

/** Slow, fast, slow. @param {number} t 0 to 1 */
export function ease(t) {
  return t < 0.5 ? 2 * t * t : 1 - 2 * (1 - t) * (1 - t);
}

/**
 * How high an arc goes, 0 to 1: to the neighbour on the right 0, the more the further, and back
 * higher than there.
 * @param {number} from
 * @param {number} to
 * @param {number} numRanks
 */
export function level(from, to, numRanks) {
  const steps = to > from ? to - from - 1 : from - to;
  return numRanks < 2 ? 0 : Math.min(1, steps / (numRanks - 1));
}

/**
 * @param {object} given
 * @param {number} given.from
 * @param {number} given.to
 * @param {number} given.numRanks
 * @param {(rank: number) => number} given.centre x of a card
 * @param {number} given.pitch from a card to the next
 * @param {number} given.base y where arcs begin and end
 * @param {number} given.low y of the top of the lowest arc
 * @param {number} given.high y of the top of the highest
 * @returns {Arc}
 */
export function arcOf({ from, to, numRanks, centre, pitch, base, low, high }) {
  const aside = pitch * 0.12;
  // The way back goes around the way there, so that the two never share an end.
  // What comes from or goes to a rank that the trace has not, ends in the air beside the card.
  const x0 = from >= 0 ? centre(from) + aside : centre(to) - pitch * 0.5;
  const x1 = to >= 0 ? centre(to) - aside : centre(from) + pitch * 0.5;
  if (from < 0 || to < 0) {
    const middle = (x0 + x1) / 2;
    return [x0, from < 0 ? low : base, middle, low, middle, low, x1, to < 0 ? low : base];
  }
  const height = level(from, to, numRanks);
  const apex = low + (high - low) * height;
  const control = base - (base - apex) / 0.75;
  const flat = height > 0 ? 0.06 : 0.3;
  const dx = x1 - x0;
  return [x0, base, x0 + flat * dx, control, x1 - flat * dx, control, x1, base];
}

/**
 * A point of an arc, written into `out`.
 * @param {Arc} arc
 * @param {number} t 0 to 1
 * @param {{x: number, y: number}} out
 */
export function pointOn(arc, t, out) {
  const s = 1 - t;
  const a = s * s * s;
  const b = 3 * s * s * t;
  const c = 3 * s * t * t;
  const d = t * t * t;
  out.x = a * arc[0] + b * arc[2] + c * arc[4] + d * arc[6];
  out.y = a * arc[1] + b * arc[3] + c * arc[5] + d * arc[7];
  return out;
}
