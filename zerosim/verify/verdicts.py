"""Each claim, held against every complete iteration of every rank.

Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from zerosim.events import Algorithm, Op, Phase
from zerosim.quantities import PSI, format_decimal, format_exact_bytes
from zerosim.record import (
    MismatchKind,
    Trace,
    ended_early,
    iterations,
    match_collectives,
    wire_by_peer,
)
from zerosim.theory import LEFT_OUT, Cause, Claim, Workload, claims, deviations, expected_traffic
from zerosim.verify.ledgers import has_no_law
from zerosim.verify.measure import RankLedger, Reason
from zerosim.verify.outcome import Outcome
from zerosim.verify.report import UNEXPLAINED, CauseBytes, LedgerRow, Verdict
from zerosim.version import VERSION

WIRE_TOLERANCE = Fraction(2, 1000)
"""Largest part of the wire that may stay unexplained."""

_UNDER_WAY_BYTES = 1000
"""Control messages that a rank may have under way: a small collective costs about as much."""

FRAMING = "message framing"
UNDER_WAY = "under way"
UNEXPLAINED_TRACE = f"{UNEXPLAINED} (trace)"
UNEXPLAINED_WIRE = f"{UNEXPLAINED} (wire)"
OF_THE_BACKEND = frozenset({Cause.BACKEND_ALGORITHM.value, Cause.SEGMENT_ROUNDING.value})
"""Causes that lie between the trace and the wire: how the backend carries its calls out."""
_BEYOND_THE_TRACE = OF_THE_BACKEND | {
    FRAMING,
    UNDER_WAY,
    UNEXPLAINED_TRACE,
    UNEXPLAINED_WIRE,
}
"""Causes that do not lie between the law and theory."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One iteration: what was to be expected in it, and what was found.

    Attributes:
        ledgers: what moved, by rank.
        rows: theory beside it.
    """

    workload: Workload
    ledgers: Mapping[int, RankLedger]
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
    """Whether a claim holds in every iteration on every rank; numbers are the last one's, rank 0.

    In each row: bytes too many in one are not made up for by bytes too few in another.
    """
    strays = [
        words
        for iteration, step in checked.items()
        for rank in range(step.workload.world_size)
        for words in _strays(step.rows, rank, iteration, claim.phase)
    ]
    differs = any(
        cause.outcome is Outcome.EXPLAINED
        for step in checked.values()
        for rank in range(step.workload.world_size)
        for cause in step_causes(step, rank, algorithm, claim.phase)
    )
    last = max(checked)
    workload = checked[last].workload
    sent = _sum(checked[last].rows, 0, claim.phase)
    unit = workload.num_parameters * workload.element_bytes
    measured = f"{format_exact_bytes(sent)} = {format_decimal(Fraction(sent, unit), 3)} {PSI}"
    causes = step_causes(checked[last], 0, algorithm, claim.phase)
    if asked := _listed(c for c in causes if c.cause not in _BEYOND_THE_TRACE):
        measured += f", of it beside the law: {asked}"
    if native := _listed(c for c in causes if c.cause in OF_THE_BACKEND):
        measured += f"; beyond that on the wire: {native}"
    if strays:
        more = f" (and {len(strays) - 1} more)" if len(strays) > 1 else ""
        measured += f"; {strays[0]}{more}"
    return Verdict(
        id=claim.id,
        title=claim.title,
        formula=claim.formula,
        holds=not strays,
        measured=measured,
        differs=differs,
    )


def _listed(causes: Iterable[CauseBytes]) -> str:
    return ", ".join(
        f"{cause.cause} {'+' if cause.bytes > 0 else ''}{format_exact_bytes(cause.bytes)}"
        for cause in causes
    )


def _strays(rows: Sequence[LedgerRow], rank: int, iteration: int, phase: Phase | None) -> list[str]:
    """Where one rank's trace is not what theory says, and its wire not what the trace says."""
    rows = [row for row in rows if phase in (None, row.phase)]
    found = []
    for row in rows:
        cell = row.sent[rank]
        if cell.unexplained_trace:
            found.append(
                f"rank {rank} was asked to send {format_exact_bytes(cell.trace)} in {row.phase} "
                f"of iteration {iteration} ({row.purpose}: {row.op}), theory says "
                f"{format_exact_bytes(cell.theory)}"
            )
    on_wire = sum(row.sent[rank].unexplained_wire or 0 for row in rows)
    if abs(on_wire) > WIRE_TOLERANCE * sum(row.sent[rank].trace for row in rows):
        where = "iteration" if phase is None else f"{phase} of iteration"
        found.append(
            f"the kernel sent {format_exact_bytes(abs(on_wire))} "
            f"{'more' if on_wire > 0 else 'less'} for rank {rank} in {where} {iteration} than the "
            "trace, its algorithm and its framing"
        )
    return found


def step_causes(
    step: Checked, rank: int, algorithm: Algorithm, phase: Phase | None = None
) -> tuple[CauseBytes, ...]:
    """Every named difference between the pure law and what the kernel sent, for one rank."""
    found = [
        CauseBytes(
            cause=deviation.cause.value,
            bytes=deviation.bytes,
            words=deviation.words,
            is_excused=deviation.cause in LEFT_OUT,
        )
        for deviation in deviations(step.workload, rank, algorithm, phase)
    ]
    rows = [row for row in step.rows if phase in (None, row.phase)]
    cells = [row.sent[rank] for row in rows]
    no_law = [row.sent[rank] for row in rows if has_no_law(row.purpose, step.workload)]
    without = sum(cell.trace + cell.algorithm for cell in no_law)
    if without:
        words = "of blocks that several ranks compute together; how much depends on the model"
        found.append(
            CauseBytes(
                cause=Cause.ACTIVATIONS.value,
                bytes=Fraction(without),
                words=words,
                is_excused=True,
            )
        )
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
    """What every rank sent to a peer, the peer received: by the kernel's counters, whole run.

    Exact for `zerosim run`, whose ranks meet before the first and after the last reading. In any
    other program something may be under way then, so a small difference proves nothing.
    """
    moved = wire_by_peer(trace)
    title = "What the ranks send together, they receive together"
    sent = sum(b.sent_bytes for mine in moved.values() for b in mine.values())
    received = sum(b.received_bytes for mine in moved.values() for b in mine.values())
    if not sent and not received and trace.manifest.num_ranks > 1:
        return _verdict("sent-is-received", title, None, "the wire was not measured")
    measured = f"{format_exact_bytes(sent)} sent, {format_exact_bytes(received)} received"
    if ended_early(trace):
        words = f"{measured}; a rank that ended early did not count to the end"
        return _verdict("sent-is-received", title, None, words)
    if sent == received or trace.manifest.run:
        return _verdict("sent-is-received", title, sent == received, measured)
    measured += "; what was under way when a rank began or ended is on one side only"
    allowed = max(sent * WIRE_TOLERANCE, Fraction(_UNDER_WAY_BYTES * len(moved)))
    small = abs(sent - received) <= allowed
    return _verdict("sent-is-received", title, None if small else False, measured)


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


def calls_verdict(checked: Mapping[int, Checked]) -> Verdict:
    """Each reason has as many calls, and as much payload, as theory plans; and no other has any."""
    title = "Every collective that theory plans was called, and no other"
    problems = [
        words
        for iteration, step in checked.items()
        for rank, ledger in sorted(step.ledgers.items())
        for words in _wrong_calls(step.workload, ledger, rank, iteration)
    ]
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        return _verdict("calls", title, holds=False, measured=f"{problems[0]}{more}")
    count = sum(
        moved.num_collectives
        for step in checked.values()
        for ledger in step.ledgers.values()
        for moved in ledger.moved.values()
    )
    return _verdict("calls", title, holds=True, measured=f"{count:,} calls, all of them planned")


def _wrong_calls(workload: Workload, ledger: RankLedger, rank: int, iteration: int) -> list[str]:
    planned = {
        Reason(row.phase, row.purpose, row.op): (row.num_collectives, row.payload_bytes)
        for row in expected_traffic(workload, rank, Algorithm.RING)
    }
    called = {
        reason: (moved.num_collectives, moved.payload_bytes)
        for reason, moved in ledger.moved.items()
    }
    nothing = (0, 0)
    return [
        f"rank {rank} called {_calls(called.get(reason, nothing))} in {reason.phase} of iteration "
        f"{iteration} ({reason.purpose}: {reason.op}), theory plans "
        f"{_calls(planned.get(reason, nothing))}"
        for reason in sorted(planned.keys() | called.keys())
        if not has_no_law(reason.purpose, workload)
        and planned.get(reason, nothing) != called.get(reason, nothing)
    ]


def _calls(pair: tuple[int, int]) -> str:
    number, payload = pair
    return f"{number} of {format_exact_bytes(payload)} payload" if number else "none"


def matching_verdict(trace: Trace) -> Verdict:
    """Every collective has its partner on every rank, with the same size and dtype."""
    matching = match_collectives(trace)
    title = "Every collective was called by all of its ranks, alike"
    cut = [one for one in matching.mismatches if one.kind is MismatchKind.STOPPED]
    wrong = [one for one in matching.mismatches if one.kind is not MismatchKind.STOPPED]
    if not wrong:
        num_cut = len({one.key for one in cut} - {None})
        measured = f"{len(matching.collectives) - num_cut:,} collectives matched"
        if unsaid := sum(len(one.receives) for one in matching.from_any):
            measured += f", {unsaid} from any rank: which one sent what is not recorded"
        if cut:
            measured += f", {len(cut)} cut short: {cut[0].message}"
        return _verdict("matched", title, holds=True, measured=measured)
    measured = f"{len(wrong)} do not match; {wrong[0].message}"
    return _verdict("matched", title, holds=False, measured=measured)


def operator_verdicts(trace: Trace) -> Iterator[Verdict]:
    """What was called that zerosim does not know, so that nothing is proved of it."""
    names = Counter(e.operator for rank in trace.ranks for e in rank.events if e.op is Op.UNKNOWN)
    if names:
        called = ", ".join(f"{name} was called {count:,} times" for name, count in names.items())
        measured = f"{called}, and what it sends is not known to zerosim {VERSION}"
        title = "Every operator that was called is known"
        yield _verdict("operators", title, holds=False, measured=measured)


def early_notes(trace: Trace) -> tuple[str, ...]:
    """What is judged of a trace that ended early; nothing if it did not."""
    complete = iterations(trace)
    if not complete or not ended_early(trace):
        return ()
    which = f"iteration {complete[0]}, which"
    if len(complete) > 1:
        which = f"iterations {complete[0]} to {complete[-1]}, which"
    return (f"the run ended early: what is judged is {which} all ranks finished",)


def _verdict(identity: str, title: str, holds: bool | None, measured: str) -> Verdict:
    return Verdict(id=identity, title=title, formula="", holds=holds, measured=measured)


def _sum(rows: Sequence[LedgerRow], rank: int, phase: Phase | None) -> int:
    return sum(row.sent[rank].trace for row in rows if phase in (None, row.phase))
