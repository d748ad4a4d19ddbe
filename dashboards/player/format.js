// How quantities are written: as zerosim/base/quantities.py does, so that a page and a command line
// never disagree. Prefixes are decimal; rounding is half to even, in integers if it matters.

import { say } from "#player/words.js";

const PREFIXES = ["B", "kB", "MB", "GB", "TB", "PB"];
const THIN = "\u2009";

/**
 * A whole number with thousands separators: `9,566,208`.
 * @param {number} value
 * @returns {string}
 */
export function formatExact(value) {
  const text = BigInt(Math.round(value)).toString();
  return text.replace(/\B(?=(\d{3})+$)/g, ",");
}

/**
 * A number rounded to some places, half to even, with thousands separators.
 * @param {number} value
 * @param {number} places
 * @returns {string}
 */
export function formatDecimal(value, places) {
  return decimal(value, 1, places);
}

/** A number of parameters: `3.31 M`. @param {number} count */
export function formatCount(count) {
  return count < 1e6
    ? formatExact(count)
    : count < 1e9
      ? `${formatDecimal(count / 1e6, 2)} M`
      : `${formatDecimal(count / 1e9, 2)} B`;
}

/**
 * Bytes with three significant digits: `9.57 MB`, `12 B`.
 * @param {number} value
 * @returns {string}
 */
export function formatBytes(value) {
  const sign = value < 0 ? "-" : "";
  const size = Math.abs(value);
  if (size < 1000 && Number.isInteger(size)) {
    return `${sign}${size} B`;
  }
  let text = "";
  for (const [power, name] of PREFIXES.entries()) {
    const divisor = 1000 ** power;
    const places =
      scaledHalfEven(size, divisor, 2) < 1000 ? 2 : scaledHalfEven(size, divisor, 1) < 1000 ? 1 : 0;
    text = `${sign}${decimal(size, divisor, places)} ${name}`;
    if (scaledHalfEven(size, divisor, 0) < 1000) {
      break;
    }
  }
  return text;
}

/**
 * A multiple of the size of all parameters: `0.61 Ψ`; whole and simple ones without zeros.
 * @param {number} value bytes
 * @param {number} psiBytes
 * @returns {string}
 */
export function formatPsi(value, psiBytes) {
  return `${decimal(value, psiBytes, 2)} Ψ`;
}

/**
 * A duration with a unit that suits it: `0 ms`, `640 ns`, `12.3 µs`, `18.42 ms`, `1.250 s`.
 * @param {number} ns
 * @returns {string}
 */
export function formatDuration(ns) {
  const size = Math.abs(ns);
  if (size === 0) {
    return "0 ms";
  }
  if (size < 1e3) {
    return `${decimal(ns, 1, 0)} ns`;
  }
  if (size < 1e6) {
    return `${decimal(ns, 1e3, 1)} µs`;
  }
  return size < 1e9 ? `${decimal(ns, 1e6, 2)} ms` : `${decimal(ns, 1e9, 3)} s`;
}

/**
 * A time of a run, marked if it is predicted.
 * @param {number} ns
 * @param {boolean} isPredicted
 */
export function formatTime(ns, isPredicted) {
  return isPredicted ? say("format.predicted", { time: formatDuration(ns) }) : formatDuration(ns);
}

/**
 * How long a rank waits: `waits 3.8 ms`.
 * @param {number} ns
 * @param {boolean} isPredicted
 */
export function formatWait(ns, isPredicted) {
  const time = ns < 5e4 || ns >= 1e9 ? formatDuration(ns) : `${(ns / 1e6).toFixed(1)} ms`;
  return say(isPredicted ? "format.waits_predicted" : "format.waits", { time });
}

/**
 * A list in words: `0`, `0 and 1`, `0, 1 and 3`, `0–3` where three or more follow each other.
 * @param {readonly number[]} values ascending
 * @returns {string}
 */
export function formatRanks(values) {
  /** @type {string[]} */
  const parts = [];
  for (let first = 0; first < values.length; ) {
    let last = first;
    while (last + 1 < values.length && values[last + 1] === values[last] + 1) {
      last += 1;
    }
    if (last - first >= 2) {
      parts.push(`${values[first]}–${values[last]}`);
    } else {
      parts.push(...values.slice(first, last + 1).map(String));
    }
    first = last + 1;
  }
  return parts.length < 2
    ? parts.join("")
    : say("format.and", { parts: parts.slice(0, -1).join(say("format.comma")), last: parts[parts.length - 1] });
}

/**
 * Parts of one line, with a dot between them; empty ones are left out.
 * @param {readonly (string | null | undefined | false)[]} parts
 * @returns {string}
 */
export function joinDots(parts) {
  return parts.filter(Boolean).join(`${THIN}·${THIN}`);
}

/**
 * @param {number} value
 * @param {number} divisor
 * @param {number} places
 */
function decimal(value, divisor, places) {
  const scaled = scaledHalfEven(Math.abs(value), divisor, places);
  const unit = 10 ** places;
  const sign = value < 0 && scaled > 0 ? "-" : "";
  const whole = formatExact(Math.floor(scaled / unit));
  return places === 0
    ? `${sign}${whole}`
    : `${sign}${whole}.${String(scaled % unit).padStart(places, "0")}`;
}

/**
 * value / divisor * 10^places as a whole number. In whole numbers where value and divisor are,
 * so that a half is a half.
 * @param {number} value 0 or more
 * @param {number} divisor
 * @param {number} places
 */
function scaledHalfEven(value, divisor, places) {
  const top = value * 10 ** places;
  const whole = Math.floor(top / divisor);
  const twice = 2 * (top - whole * divisor);
  if (twice === divisor) {
    return whole + (whole % 2);
  }
  return twice > divisor ? whole + 1 : whole;
}
