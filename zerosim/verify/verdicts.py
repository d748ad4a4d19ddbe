"""Each claim, held against every complete iteration of every rank.

Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from zerosim.events import Algorithm, Phase
from zerosim.quantities import PSI, format_decimal, format_exact_bytes
from zerosim.record import Trace, match_collectives, wire_by_peer
from zerosim.theory import Cause, Claim, Workload, claims, deviations
from zerosim.verify.report import CauseBytes, LedgerRow, Verdict

WIRE_TOLERANCE = Fraction(2, 1000)
"""Largest part of the wire that may stay unexplained."""

FRAMING = "message framing"
UNEXPLAINED_TRACE = "unexplained (trace)"
UNEXPLAINED_WIRE = "unexplained (wire)"
_REFUTING = frozenset({Cause.BACKEND_ALGORITHM})
"""With one of these the law does not hold; all others are what the law leaves out."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The ledgers of one iteration and what was to be expected in it."""

    workload: Workload
    rows: Sequence[LedgerRow]


def claim_verdicts(checked: Mapping[int, Checked], algorithm: Algorithm) -> tuple[Verdict, ...]:
    """The traffic claims of theory: the whole step, and each phase."""
    last = max(checked)
    shown = [
        claim
        for claim in claims(checked[last].workload, 0, Algorithm.RING)
        if claim.rank is not None
    ]
    return tuple(_claim_verdict(claim, checked, algorithm) for claim in shown)


def _claim_verdict(claim: Claim, checked: Mapping[int, Checked], algorithm: Algorithm) -> Verdict:
    holds = True
    worst: Fraction = Fraction(0)
    refuted: Fraction = Fraction(0)
    last = max(checked)
    for iteration, step in checked.items():
        for rank in range(step.workload.num_ranks):
            causes = step_causes(step, rank, algorithm, claim.phase)
            strays = [c for c in causes if c.cause in (UNEXPLAINED_TRACE, UNEXPLAINED_WIRE)]
            sent = _sum(step.rows, rank, claim.phase)
            for stray in strays:
                allowed = sent * WIRE_TOLERANCE if stray.cause == UNEXPLAINED_WIRE else 0
                worst = max(worst, abs(stray.bytes))
                holds = holds and abs(stray.bytes) <= allowed
            beyond = sum((c.bytes for c in causes if not c.is_excused), Fraction(0))
            if iteration == last and rank == 0:
                refuted = beyond
            holds = holds and beyond == 0
    workload = checked[last].workload
    sent = _sum(checked[last].rows, 0, claim.phase)
    unit = workload.num_parameters * workload.element_bytes
    measured = f"{format_exact_bytes(sent)} = {format_decimal(Fraction(sent, unit), 3)} {PSI}"
    if refuted:
        measured += f", {format_exact_bytes(refuted)} more than the law"
    if worst:
        measured += f", up to {format_exact_bytes(worst)} unexplained"
    return Verdict(
        id=claim.id, title=claim.title, formula=claim.formula, holds=holds, measured=measured
    )


def step_causes(
    step: Checked, rank: int, algorithm: Algorithm, phase: Phase | None = None
) -> tuple[CauseBytes, ...]:
    """Every named difference between the pure law and what the kernel sent, for one rank."""
    found = [
        CauseBytes(
            cause=deviation.cause.value,
            bytes=deviation.bytes,
            words=deviation.words,
            is_excused=deviation.cause not in _REFUTING,
        )
        for deviation in deviations(step.workload, rank, algorithm, phase)
    ]
    cells = [row.sent[rank] for row in step.rows if phase in (None, row.phase)]
    stray = sum(cell.unexplained_trace for cell in cells)
    if stray:
        found.append(_stray(UNEXPLAINED_TRACE, stray, "the trace differs from theory"))
    framings = [cell.framing for cell in cells]
    if all(framing is not None for framing in framings):
        total = sum(framing or 0 for framing in framings)
        if total:
            words = "48 B for each header, send-ready and receive-ready of a message"
            found.append(
                CauseBytes(cause=FRAMING, bytes=Fraction(total), words=words, is_excused=True)
            )
        on_wire = sum(cell.unexplained_wire or 0 for cell in cells)
        if on_wire:
            found.append(_stray(UNEXPLAINED_WIRE, on_wire, "the wire differs from the trace"))
    return tuple(found)


def _stray(cause: str, number: int, words: str) -> CauseBytes:
    return CauseBytes(cause=cause, bytes=Fraction(number), words=words, is_excused=True)


def conservation_verdict(trace: Trace) -> Verdict:
    """What every rank sent to a peer, the peer received: by the kernel's counters, whole run."""
    moved = wire_by_peer(trace)
    title = "What the ranks send together, they receive together"
    sent = sum(b.sent_bytes for mine in moved.values() for b in mine.values())
    received = sum(b.received_bytes for mine in moved.values() for b in mine.values())
    if not sent and not received and trace.manifest.num_ranks > 1:
        return _verdict("sent-is-received", title, None, "the wire was not measured")
    measured = f"{format_exact_bytes(sent)} sent, {format_exact_bytes(received)} received"
    return _verdict("sent-is-received", title, sent == received, measured)


def wire_verdict(checked: Mapping[int, Checked], outside: int) -> Verdict:
    """How much of the wire has no name."""
    title = "The kernel sent what the trace says, and nothing else"
    total = worst = 0
    for step in checked.values():
        for row in step.rows:
            for cell in row.sent:
                if cell.unexplained_wire is None:
                    return _verdict("wire-is-trace", title, None, "the wire was not measured")
                worst += abs(cell.unexplained_wire)
                total += cell.wire or 0
    share = Fraction(worst + outside, total) if total else Fraction(0)
    measured = (
        f"{format_exact_bytes(worst)} unexplained and {format_exact_bytes(outside)} outside of "
        f"collectives, of {format_exact_bytes(total)}"
    )
    return _verdict("wire-is-trace", title, share <= WIRE_TOLERANCE, measured)


def matching_verdict(trace: Trace) -> Verdict:
    """Every collective has its partner on every rank, with the same size and dtype."""
    matching = match_collectives(trace)
    title = "Every collective was called by all of its ranks, alike"
    count = len(matching.collectives)
    if not matching.mismatches:
        measured = f"{count:,} collectives matched"
        return _verdict("matched", title, holds=True, measured=measured)
    measured = f"{len(matching.mismatches)} do not match; {matching.mismatches[0].message}"
    return _verdict("matched", title, holds=False, measured=measured)


def _verdict(identity: str, title: str, holds: bool | None, measured: str) -> Verdict:
    return Verdict(id=identity, title=title, formula="", holds=holds, measured=measured)


def _sum(rows: Sequence[LedgerRow], rank: int, phase: Phase | None) -> int:
    return sum(row.sent[rank].trace for row in rows if phase in (None, row.phase))
