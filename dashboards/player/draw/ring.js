// Packets: which ranks send to which in a step, and where on its way a packet is at a moment. Pure; draws nothing.

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
 * A point of a way, written into `out`.
 * @param {Arc} arc the way
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
