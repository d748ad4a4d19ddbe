"""One trace as a row of a table of implementations: what a step moves, holds and takes.

Bytes are of one step and exact, the mean of all ranks: ranks need not be alike (a pipeline's
stages, the root of a broadcast). Times are medians over steps and belong to the machine.
Imports zerosim's L0, record, theory, analysis and this package. No torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from statistics import fmean
from typing import Any

from zerosim.events import Algorithm, Event, Kind, Op, Phase
from zerosim.record import RankTrace, Trace, match_sockets, phase_wire
from zerosim.theory import cost
from zerosim.verify.comparison import held, side_of
from zerosim.verify.memory import timelines
from zerosim.verify.outcome import Outcome
from zerosim.verify.report import Report, to_json
from zerosim.verify.verify import verify

PASSES = {Op.ALL_REDUCE: 2, Op.RECEIVE: 0, Op.BARRIER: 0}
"""How often a law counts a payload; once where nothing is said here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one implementation does in a step.

    Attributes:
        name: what it is called in the table.
        num_collectives: calls of the first rank, by operation.
        payloads: elements that a rank communicates, in Psi; an all-reduce counts twice.
        ring_bytes: what a rank of a ring would send for it.
        wire_bytes: what the kernel sent for a rank; None if it was not measured.
        peak_bytes: the most that any rank held; None if it was not recorded.
        exposed_ns: how long a rank was stalled in communication; None if it was not recorded.
        step_ns: how long a step took, from the first rank's beginning to the last one's end.
        loss: of the last step, the mean of those ranks that have one; None if none has.
        outcome: whether the program does what its law says; None if nothing is predicted.
        headline: the verdict in a sentence.
        causes: why it sends something else than the pure law says, one line each.
    """

    name: str
    num_collectives: dict[Op, int]
    payloads: Fraction
    ring_bytes: int
    wire_bytes: int | None
    peak_bytes: int | None
    exposed_ns: int | None
    step_ns: int | None
    loss: float | None
    outcome: Outcome | None
    headline: str
    causes: tuple[str, ...]

    def to_plain(self) -> dict[str, Any]:
        """As values that JSON knows."""
        plain: dict[str, Any] = to_json(
            {field.name: getattr(self, field.name) for field in fields(self)}
        )
        return plain


def profile(trace: Trace, name: str, num_parameters: int) -> Profile:
    """Measure one implementation.

    Args:
        num_parameters: Psi, of the whole model: a pipeline's rank knows only its own stage.

    Raises:
        TraceError: no iteration was finished by all ranks.
    """
    report = verify(trace)
    iteration = report.iteration
    side = side_of(trace, name)
    moved = [
        [event for event in rank.events if _is_moved(event, iteration)] for rank in trace.ranks
    ]
    elements = [sum(_passes(event) * event.elements for event in events) for events in moved]
    rings = [
        sum(_ring_bytes(rank, event) for event in events)
        for rank, events in zip(trace.ranks, moved, strict=True)
    ]
    times = side.times
    exposed = None if times is None or not times.exposed_ns else sum(times.exposed_ns.values())
    return Profile(
        name=name,
        num_collectives=dict(
            Counter(event.op for event in moved[0] if event.op is not None).most_common()
        ),
        payloads=Fraction(sum(elements), len(elements) * num_parameters),
        ring_bytes=round(fmean(rings)),
        wire_bytes=_wire_bytes(trace, iteration),
        peak_bytes=_peak_bytes(trace, report.iterations),
        exposed_ns=exposed,
        step_ns=None if times is None else times.duration_ns,
        loss=_loss(trace),
        outcome=report.outcome,
        headline=report.headline,
        causes=_causes(report),
    )


def _is_moved(event: Event, iteration: int) -> bool:
    return (
        event.kind is Kind.COLLECTIVE
        and event.iteration == iteration
        and event.phase in (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
    )


def _passes(event: Event) -> int:
    return PASSES.get(event.op, 1) if event.op is not None else 0


def _ring_bytes(rank: RankTrace, event: Event) -> int:
    """What a ring makes a rank send; a broadcast is a pipeline around it, in the mean."""
    group = rank.groups[event.group].ranks
    size = event.payload_bytes // event.elements if event.elements else 1
    if event.op is Op.SEND:
        return event.payload_bytes
    if event.op is Op.BROADCAST:
        return event.payload_bytes * (len(group) - 1) // len(group)
    if event.op not in (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER):
        return 0
    place = group.index(rank.rank)
    return cost(Algorithm.RING, event.op, len(group), place, event.elements, size).sent_bytes


def _peak_bytes(trace: Trace, complete: Sequence[int]) -> int | None:
    if not all(rank.memory_samples for rank in trace.ranks):
        return None
    return max(held(line, complete).highest_bytes for line in timelines(trace).values())


def _wire_bytes(trace: Trace, iteration: int) -> int | None:
    peers = match_sockets(trace)
    sent = []
    for rank in trace.ranks:
        pieces = [piece for piece in phase_wire(rank, peers) if piece.iteration == iteration]
        if not pieces or rank.header.device != "cpu":
            return None
        sent.append(sum(piece.sent_bytes for piece in pieces))
    return round(fmean(sent))


def _loss(trace: Trace) -> float | None:
    """The last that each rank reported, in the mean."""
    last = [
        [metric.value for metric in rank.metrics if metric.name == "loss"][-1:]
        for rank in trace.ranks
    ]
    known = [value for values in last for value in values]
    return fmean(known) if known else None


def _causes(report: Report) -> tuple[str, ...]:
    return tuple(cause.words for cause in report.causes)
