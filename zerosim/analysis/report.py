"""The results of the event graph for one iteration, as data and in a sentence."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from zerosim.analysis.bandwidth import Bandwidth
from zerosim.analysis.budget import Budgets
from zerosim.analysis.graph import Check, HostClock
from zerosim.analysis.path import CriticalPath, TimeCause
from zerosim.analysis.wording import said
from zerosim.base.language import clauses, enumerated, term
from zerosim.schema.events import WHOLE


@dataclass(frozen=True, slots=True, kw_only=True)
class PathStep:
    """An entity on the critical path, with its total time there.

    Attributes:
        rank: for a collective, the rank that arrived last.
        label: its description, in words.
        source: "file.py:41 in function"; "" if unknown.
    """

    rank: int
    label: str
    unit: str
    phase: str
    cause: TimeCause
    start_ns: int
    duration_ns: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slack:
    """One event, and how much later it could have ended without delaying the iteration."""

    rank: int
    label: str
    phase: str
    start_ns: int
    duration_ns: int
    slack_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphReport:
    """The results of the event graph.

    Attributes:
        iteration: the analysed iteration; `WHOLE` for a program without iterations.
        iterations: the available ones.
        num_nodes, num_edges: of the whole trace.
        path: None if the collectives wait for each other in a cycle.
        steps: entities on the path, the longest first.
        slacks: of the requested rank, in order of time.
        clocks: clocks of all hosts.
        notes: further information for the reader.
        is_predicted: whether the times are predicted.
        is_timed: whether there are times; else there is neither path nor bandwidth.
        compares_ranks: whether the matching of calls between ranks is recorded.
    """

    num_ranks: int
    iteration: int
    iterations: tuple[int, ...]
    num_nodes: int
    num_edges: int
    path: CriticalPath | None
    budgets: Budgets
    bandwidths: tuple[Bandwidth, ...]
    steps: tuple[PathStep, ...]
    slacks: tuple[Slack, ...]
    checks: tuple[Check, ...]
    clocks: tuple[HostClock, ...]
    notes: tuple[str, ...]
    is_predicted: bool = False
    is_timed: bool = True
    compares_ranks: bool = True

    @property
    def holds(self) -> bool:
        """True if no check fails."""
        return all(check.holds is not False for check in self.checks)

    @property
    def headline(self) -> str:
        """The answer in a sentence."""
        return f"{clauses(self.clauses)}{said('report.end')}"

    @property
    def clauses(self) -> tuple[str, ...]:
        """Parts of that sentence: the duration, its causes, and the waits between ranks."""
        failed = sum(check.holds is False for check in self.checks)
        if not self.is_timed:
            return (said("report.no_times"),)
        if self.path is None:
            return (said("report.cycle"),)
        is_one = self.num_ranks == 1
        shares = enumerated(
            said("report.share", share=share, cause=term(cause))
            for cause, share in shares_of(self.path.by_cause())
        )
        is_known = self.budgets.waits_recorded
        words = said(
            "report.predicted" if self.is_predicted else "report.took",
            what=said(
                "report.recording" if self.iteration == WHOLE else "report.iteration",
                iteration=self.iteration,
            ),
            time=milliseconds(self.path.duration_ns),
            mostly=self._mostly() if is_known and not shares and not is_one else "",
        )
        if failed:
            words = said("report.failing", failed=failed, checks=len(self.checks), answer=words)
        if not is_known:
            return words, said("report.unrecorded"), self._waited()
        mostly = "" if is_one else self._mostly()
        why = [said("report.path", shares=shares, mostly=mostly)] if shares else []
        return (words, *why) if is_one else (words, *why, self._waited())

    def _mostly(self) -> str:
        assert self.path is not None
        own = self.path.by_rank()
        rank = max(own, key=lambda one: own[one], default=None)
        return "" if rank is None or not own[rank] else said("report.mostly", rank=rank)

    def _waited(self) -> str:
        totals = {rank: self.budgets.waited_for(rank) for rank in self.budgets.ranks}
        rank = max(totals, key=lambda one: totals[one], default=None)
        if not self.compares_ranks:
            return said("report.unknown")
        if rank is None or not totals[rank]:
            return said("report.nobody")
        return said(
            "report.waited" if self.budgets.waits_recorded else "report.collectives",
            others=said("report.others" if self.num_ranks > 2 else "report.other", rank=1 - rank),
            time=milliseconds(totals[rank]),
            rank=rank,
        )

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        path = self.path
        return {
            "headline": self.headline,
            "holds": self.holds,
            "is_predicted": self.is_predicted,
            "is_timed": self.is_timed,
            "num_ranks": self.num_ranks,
            "iteration": self.iteration,
            "iterations": list(self.iterations),
            "num_nodes": self.num_nodes,
            "num_edges": self.num_edges,
            "critical_path": None
            if path is None
            else {
                "duration_ns": path.duration_ns,
                "by_cause_ns": {cause.value: ns for cause, ns in path.by_cause().items()},
                "by_rank_ns": {str(rank): ns for rank, ns in path.by_rank().items()},
                "num_nodes": len(path.nodes),
            },
            "budgets": [
                {
                    "rank": rank,
                    "phase": phase.value,
                    **asdict(budget),
                    "overlap": budget.overlap,
                    "copying_overlap": budget.copying_overlap,
                }
                for (rank, phase), budget in self.budgets.by_phase.items()
            ],
            "waits_recorded": self.budgets.waits_recorded,
            "waited": [
                {"rank": rank, "for_rank": straggler, "waited_ns": ns}
                for (rank, straggler), ns in self.budgets.waited_ns.items()
            ],
            "bandwidths": [
                {
                    **asdict(one),
                    "algorithm_bytes_per_s": one.algorithm_bytes_per_s,
                    "bus_bytes_per_s": one.bus_bytes_per_s,
                    "moving_bus_bytes_per_s": one.moving_bus_bytes_per_s,
                }
                for one in self.bandwidths
            ],
            "steps": [asdict(step) for step in self.steps],
            "slacks": [asdict(one) for one in self.slacks],
            "checks": [{**asdict(check), "holds": check.holds} for check in self.checks],
            "clocks": [asdict(clock) for clock in self.clocks],
            "notes": list(self.notes),
        }


def milliseconds(ns: int) -> str:
    """A time with three digits."""
    value = ns / 1e6
    num_decimals = 0 if value >= 1000 else 1 if value >= 10 else 2 if value >= 1 else 3
    return f"{value:,.{num_decimals}f}"


def shares_of(times: dict[TimeCause, int]) -> list[tuple[TimeCause, int]]:
    """Whole percents that sum to 100, the largest first; zero percents are omitted."""
    whole = sum(times.values())
    if not whole:
        return []
    shares = {cause: 100 * ns // whole for cause, ns in times.items()}
    by_rest = sorted(times, key=lambda cause: -(100 * times[cause] % whole))
    for cause in by_rest[: 100 - sum(shares.values())]:
        shares[cause] += 1
    return sorted(((c, share) for c, share in shares.items() if share), key=lambda one: -one[1])
