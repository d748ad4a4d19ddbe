// Three ledgers of one collective for one rank: its sent bytes by theory, trace and wire.

import { formatBytes, formatExact } from "#player/format.js";
import { say } from "#player/words.js";

/** @import { Collective, CopyLedger, Outcome, Step } from "#player/types.d.ts" */

/**
 * @typedef {object} Entry
 * @property {string} name
 * @property {string} value an exact number of bytes, or why there is none
 * @property {Outcome | null} outcome beside the ledger before it; null: there is nothing to compare
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
  return [
    ...readAsked(theory, trace),
    readWire(trace, collective.wire[rank], collective.framing[rank], {
      excess: collective.excess[rank] ?? 0,
      isMore: collective.is_more,
    }),
  ];
}

/**
 * A rank's copies in a step: theory, trace, and the kernel's count for a disk. A bus has no counter per
 * process.
 * @param {Step} step
 * @param {CopyLedger} ledger
 * @param {number} rank
 * @returns {Entry[]}
 */
export function readCopy({ origin, target }, { theory, trace, counted, framing }, rank) {
  const [expected, asked, measured] = [theory[rank], trace[rank], counted[rank]];
  const beside = framing[rank] ?? 0;
  const agrees = measured === null || asked === null ? null : measured === asked + beside;
  return [
    ...readAsked(expected, asked),
    {
      name: origin === "disk" || target === "disk" ? say("ledger.disk") : say("ledger.bus"),
      value: amount(measured, say("shared.not_measured")),
      outcome: outcomeOf(agrees),
      note: noteOf(agrees, beside, Number(measured) - Number(asked)),
    },
  ];
}

/** Theory, and the requests to PyTorch. @param {number | null} theory @param {number | null} trace
 *  @returns {Entry[]} */
function readAsked(theory, trace) {
  const same = theory === null || trace === null ? null : theory === trace;
  const outcome = outcomeOf(same);
  const note = same === false ? signed(Number(trace) - Number(theory)) : "";
  return [
    { name: say("ledger.theory"), value: amount(theory, say("ledger.no_law")), outcome, note: "" },
    { name: say("ledger.trace"), value: amount(trace, say("shared.not_measured")), outcome, note },
  ];
}

/** @param {boolean | null} agrees @returns {Outcome | null} */
function outcomeOf(agrees) {
  return agrees === null ? null : agrees ? "as predicted" : "unexplained";
}

/** The text beside a counter. @param {boolean | null} agrees @param {number} beside bytes of a file
 *  that are not its content @param {number} extra */
function noteOf(agrees, beside, extra) {
  if (agrees === null || (agrees && beside === 0)) {
    return "";
  }
  return agrees ? say("ledger.file", { beside: signed(beside) }) : signed(extra);
}

/**
 * @param {number | null} trace
 * @param {number | null} wire
 * @param {number | null} framing
 * @param {{ excess: number, isMore: boolean }} native the excess of the backend's algorithm, and whether it
 * implements a larger operation than requested
 * @returns {Entry}
 */
function readWire(trace, wire, framing, { excess, isMore }) {
  const value = amount(wire, say("shared.not_measured"));
  if (trace === null || wire === null) {
    return { name: say("ledger.wire"), value, outcome: null, note: "" };
  }
  const extra = wire - trace;
  if (extra !== (framing ?? 0) + excess) {
    return { name: say("ledger.wire"), value, outcome: framing === null ? null : "unexplained", note: signed(extra) };
  }
  const notes = [excess === 0 ? "" : say("ledger.algorithm", { excess: signed(excess) }), framing ? say("ledger.framing", { framing: signed(framing) }) : ""];
  const outcome = isMore ? "differs, every byte explained" : "as predicted";
  return { name: say("ledger.wire"), value, outcome, note: notes.filter(Boolean).join(", ") };
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
