"""One run as a row of a table of implementations: traffic, memory and time of a step.

Bytes are of one step and exact, the mean over all ranks: ranks may differ (a pipeline's stages, the
root of a broadcast). Times are medians over steps and belong to the machine. No torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from statistics import fmean
from typing import Any

from zerosim.analysis.traffic import Moved, known_sum, sums
from zerosim.record import Trace
from zerosim.schema.events import STEP_PHASES, Op
from zerosim.verify.outcome import Outcome
from zerosim.verify.report import to_json
from zerosim.view.reading.measured import held, times_of
from zerosim.view.reading.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A step of one implementation.

    Attributes:
        name: its name in the table.
        num_collectives: calls of the first rank, by operation.
        payloads: elements that a rank communicates, in Psi; an all-reduce counts twice.
        ring_bytes: traffic of a rank of a ring for it; None if unknown.
        wire_bytes: the kernel's count for a rank; None if not measured.
        peak_bytes: the largest peak of any rank; None if not recorded.
        exposed_ns: exposed communication of a rank; None if not recorded.
        step_ns: duration of a step, from the first rank's start to the last one's end.
        loss: loss of the last step, the mean over the ranks that have one; None if none has.
        outcome: whether the program follows its law; None if nothing is predicted.
        headline: the verdict in a sentence.
        causes: why its traffic differs from the pure law, one line each.
    """

    name: str
    num_collectives: dict[Op, int]
    payloads: Fraction
    ring_bytes: int | None
    wire_bytes: int | None
    peak_bytes: int | None
    exposed_ns: int | None
    step_ns: int | None
    loss: float | None
    outcome: Outcome | None
    headline: str
    causes: tuple[str, ...]

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        plain: dict[str, Any] = to_json(
            {field.name: getattr(self, field.name) for field in fields(self)}
        )
        return plain


def profile(run: Run, name: str, num_parameters: int) -> Profile:
    """Measure one implementation.

    Args:
        num_parameters: Psi, of the whole model: a pipeline's rank only records its own stage.

    Raises:
        TraceError: no iteration was finished by all ranks.
    """
    report, trace = run.verify().report, run.trace
    calls = [
        call
        for call in run.calls
        if call.event.iteration == report.iteration and call.event.phase in STEP_PHASES
    ]
    of_ranks = sums(calls, lambda call: call.rank)
    moved = [of_ranks.get(rank.rank, Moved()) for rank in trace.ranks]
    first = [call.event.op for call in calls if call.rank == trace.ranks[0].rank]
    times = times_of(run.graph, report.iterations)
    exposed = None if times is None or not times.exposed_ns else sum(times.exposed_ns.values())
    elements = sum(one.volume_elements for one in moved)
    return Profile(
        name=name,
        num_collectives=dict(Counter(op for op in first if op is not None).most_common()),
        payloads=Fraction(elements, len(moved) * num_parameters),
        ring_bytes=_mean(one.sent_bytes for one in moved),
        wire_bytes=_mean(wire.wire for wire in report.wires),
        peak_bytes=_peak_bytes(run, report.iterations),
        exposed_ns=exposed,
        step_ns=None if times is None else times.duration_ns,
        loss=_loss(trace),
        outcome=report.outcome,
        headline=report.headline,
        causes=tuple(cause.words for cause in report.causes),
    )


def _mean(sizes: Iterable[int | None]) -> int | None:
    """The mean over all ranks; None if one is unknown."""
    known = list(sizes)
    whole = known_sum(known)
    return None if whole is None else round(whole / len(known))


def _peak_bytes(run: Run, complete: Sequence[int]) -> int | None:
    if not all(rank.memory_samples for rank in run.trace.ranks):
        return None
    return max(held(run.timeline(rank), complete).highest_bytes for rank in run.ranks)


def _loss(trace: Trace) -> float | None:
    """The mean of the last values that the ranks reported."""
    last = [
        [metric.value for metric in rank.metrics if metric.name == "loss"][-1:]
        for rank in trace.ranks
    ]
    known = [value for values in last for value in values]
    return fmean(known) if known else None
