// Three ledgers of one collective for one rank: what theory, trace and wire say that it sent.

import { formatBytes, formatExact } from "#player/format.js";

/** @import { Collective, CopyLedger, Step } from "#player/types.d.ts" */

/**
 * @typedef {object} Entry
 * @property {"theory" | "trace" | "wire" | "disk" | "bus"} name
 * @property {string} value an exact number of bytes, or why there is none
 * @property {boolean | null} agrees with the ledger before it; null: there is nothing to compare
 * @property {string} note
 */

/**
 * @param {Collective} collective
 * @param {number} rank
 * @returns {Entry[]} theory, trace and wire
 */
export function readLedger(collective, rank) {
  const theory = collective.theory[rank];
  const trace = collective.trace[rank];
  const same = theory === null || trace === null ? null : theory === trace;
  return [
    { name: "theory", value: amount(theory, "no law"), agrees: same, note: "" },
    {
      name: "trace",
      value: amount(trace, "not measured"),
      agrees: same,
      note: same === false ? signed(Number(trace) - Number(theory)) : "",
    },
    readWire(trace, collective.wire[rank], collective.framing[rank]),
  ];
}

/**
 * What a rank copies in a step: theory, trace, and what the kernel counted of a disk. A bus has no
 * counter of a process.
 * @param {Step} step
 * @param {CopyLedger} ledger
 * @param {number} rank
 * @returns {Entry[]}
 */
export function readCopy({ origin, target }, { theory, trace, counted, framing }, rank) {
  const [expected, asked, measured] = [theory[rank], trace[rank], counted[rank]];
  const beside = framing[rank] ?? 0;
  const same = expected === null || asked === null ? null : expected === asked;
  const agrees = measured === null || asked === null ? null : measured === asked + beside;
  return [
    { name: "theory", value: amount(expected, "no law"), agrees: same, note: "" },
    {
      name: "trace",
      value: amount(asked, "not measured"),
      agrees: same,
      note: same === false ? signed(Number(asked) - Number(expected)) : "",
    },
    {
      name: origin === "disk" || target === "disk" ? "disk" : "bus",
      value: amount(measured, "not measured"),
      agrees,
      note: noteOf(agrees, beside, Number(measured) - Number(asked)),
    },
  ];
}

/** What is said beside a counter. @param {boolean | null} agrees @param {number} beside bytes of a file
 *  that are not its content @param {number} extra */
function noteOf(agrees, beside, extra) {
  if (agrees === null || (agrees && beside === 0)) {
    return "";
  }
  return agrees ? `${signed(beside)} file` : signed(extra);
}

/**
 * @param {number | null} trace
 * @param {number | null} wire
 * @param {number | null} framing
 * @returns {Entry}
 */
function readWire(trace, wire, framing) {
  const value = amount(wire, "not measured");
  if (trace === null || wire === null) {
    return { name: "wire", value, agrees: null, note: "" };
  }
  const extra = wire - trace;
  if (extra === (framing ?? 0)) {
    return { name: "wire", value, agrees: true, note: extra === 0 ? "" : `${signed(extra)} framing` };
  }
  return { name: "wire", value, agrees: framing === null ? null : false, note: signed(extra) };
}

/** @param {number | null} bytes @param {string} otherwise */
function amount(bytes, otherwise) {
  return bytes === null ? otherwise : formatExact(bytes);
}

/** @param {number} bytes */
function signed(bytes) {
  const text = Math.abs(bytes) < 1e6 ? `${formatExact(Math.abs(bytes))} B` : formatBytes(Math.abs(bytes));
  return `${bytes < 0 ? "−" : "+"} ${text}`;
}
