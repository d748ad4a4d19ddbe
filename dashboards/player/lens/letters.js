// The labels of shards: a, b, c, d ... z, aa, ab. Lessons and pictures refer to the same piece a.

/** @param {number} shard from 0 @returns {string} */
export function letterOf(shard) {
  return (shard >= 26 ? letterOf(Math.floor(shard / 26) - 1) : "") + String.fromCharCode(97 + (shard % 26));
}

/**
 * Some shards: "a", "a, c", "a–d" where three or more follow each other.
 * @param {readonly number[]} shards ascending
 */
export function lettersOf(shards) {
  /** @type {string[]} */
  const parts = [];
  for (let first = 0; first < shards.length; ) {
    let last = first;
    while (shards[last + 1] === shards[last] + 1) {
      last += 1;
    }
    const ends = last - first < 2 ? shards.slice(first, last + 1) : null;
    parts.push(...(ends ?? [`${letterOf(shards[first])}–${letterOf(shards[last])}`]).map((one) => (typeof one === "string" ? one : letterOf(one))));
    first = last + 1;
  }
  return parts.join(", ");
}
