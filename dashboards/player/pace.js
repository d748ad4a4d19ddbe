// The display time of a step by its own duration: for playback hop by hop, and for the moments of a
// comparison.

/** Milliseconds on screen for one millisecond of the trace, at speed 1. */
const STRETCH = 60;
const SHORTEST_MS = 250;
const SHORTEST_WITH_PACKETS_MS = 350;
const LONGEST_MS = 1600;

/**
 * By step, how long it is shown at speed 1, in milliseconds.
 * @param {Float64Array} times in ns, ascending
 * @param {Int32Array} numPackets by step
 */
export function paceOfTimes(times, numPackets) {
  return Float64Array.from(times, (time, k) => {
    const span = k + 1 < times.length ? times[k + 1] - time : 0;
    const least = numPackets[k] > 0 ? SHORTEST_WITH_PACKETS_MS : SHORTEST_MS;
    return Math.min(LONGEST_MS, Math.max(least, (span / 1e6) * STRETCH));
  });
}
