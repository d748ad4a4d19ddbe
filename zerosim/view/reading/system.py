"""One run as a row of a table of the family: traffic per link, memory and time of a step.

Traffic is of one step and exact: the maximum over ranks, and between nodes that of the node that
sends most. Memory is the maximum over ranks. Times are medians and belong to the machine. No torch.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from zerosim.base.tiers import Link, Tier
from zerosim.record import Trace, ranks_per_node
from zerosim.verify.outcome import Outcome
from zerosim.verify.report import Report, to_json
from zerosim.view.reading.measured import times_of
from zerosim.view.reading.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRow:
    """A step of one system.

    Attributes:
        name: its name in the table.
        held_bytes: the largest peak of any rank within iterations, by tier.
        moved_bytes: by link; between nodes the traffic of a whole node, else that of a rank.
        step_ns: duration of a step; None if not recorded.
        losses: loss of each step.
        outcome: whether it follows its laws.
        headline: the verdict in a sentence.
    """

    name: str
    held_bytes: dict[Tier, int]
    moved_bytes: dict[Link, int]
    step_ns: int | None
    losses: tuple[float, ...]
    outcome: Outcome | None
    headline: str

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        plain: dict[str, Any] = to_json(asdict(self))
        return plain


def system_row(run: Run, name: str) -> SystemRow:
    """Measure one system.

    Raises:
        TraceError: no iteration was finished by all ranks, or memory was not recorded.
    """
    report, trace = run.verify().report, run.trace
    times = times_of(run.graph, report.iterations)
    return SystemRow(
        name=name,
        held_bytes=_held_bytes(run),
        moved_bytes=_moved_bytes(trace, report),
        step_ns=None if times is None else times.duration_ns,
        losses=run.losses,
        outcome=report.outcome,
        headline=report.headline,
    )


def _held_bytes(run: Run) -> dict[Tier, int]:
    report = run.verify_memory().report
    held = {Tier.DEVICE: max((peak.bytes for peak in report.peaks), default=0)}
    held |= {Tier.HOST: 0, Tier.DISK: 0}
    for tier in report.tiers:
        held[tier.tier] = max((peak.bytes for peak in tier.peaks), default=0)
    return held


def _moved_bytes(trace: Trace, report: Report) -> dict[Link, int]:
    moved: dict[Link, list[int]] = {link: [0] * report.num_ranks for link in Link}
    for row in (*report.copies, *(report.links or report.rows)):
        for cell in row.sent:
            moved[row.link or Link.NODE][cell.rank] += cell.trace
    size = ranks_per_node(trace)
    by_node = [
        sum(moved[Link.NETWORK][first : first + size]) for first in range(0, report.num_ranks, size)
    ]
    largest = {link: max(of_ranks) for link, of_ranks in moved.items()}
    return largest | {Link.NETWORK: max(by_node)}
