"""What the event graph of a trace says about one iteration, as data.

Imports the standard library, zerosim's L0, record, graph and its siblings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from zerosim.analysis.bandwidth import Bandwidth, bandwidths
from zerosim.analysis.budget import Budgets, budgets
from zerosim.analysis.path import Cause, CriticalPath, critical_path, slack
from zerosim.errors import ConfigError
from zerosim.events import Kind
from zerosim.graph import Check, EventGraph, HostClock, NodeKind, ViolationKind, check_graph
from zerosim.graph.kinds import PHASES
from zerosim.record import Trace, iterations

EVERYTHING = -1
"""In place of an iteration: a program that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the critical path led through, with all of its time there.

    Attributes:
        rank: of a collective, the rank that arrived last.
        label: what it is, in words.
        source: "file.py:41 in function"; "" if unknown.
    """

    rank: int
    label: str
    unit: str
    phase: str
    cause: Cause
    start_ns: int
    duration_ns: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slack:
    """One event, and how much later it could have been over with the iteration's end unchanged."""

    rank: int
    label: str
    phase: str
    start_ns: int
    duration_ns: int
    slack_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphReport:
    """The answers to what the event graph is for.

    Attributes:
        iteration: that was analysed; `EVERYTHING` for a program without iterations.
        iterations: those that there are.
        num_nodes, num_edges: of the whole trace.
        path: None where the collectives wait for each other in a circle.
        steps: of the path, the longest first.
        slacks: of the rank that was asked for, in the order of time.
        clocks: of all hosts.
        notes: what a reader should know besides.
    """

    num_ranks: int
    iteration: int
    iterations: tuple[int, ...]
    num_nodes: int
    num_edges: int
    path: CriticalPath | None
    budgets: Budgets
    bandwidths: tuple[Bandwidth, ...]
    steps: tuple[Step, ...]
    slacks: tuple[Slack, ...]
    checks: tuple[Check, ...]
    clocks: tuple[HostClock, ...]
    notes: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """True if no check fails."""
        return all(check.holds for check in self.checks)

    @property
    def headline(self) -> str:
        """The answer in a sentence."""
        failed = sum(not check.holds for check in self.checks)
        if self.path is None:
            return "The collectives wait for each other in a circle: a deadlock, named below."
        begin = "" if not failed else f"{failed} of {len(self.checks)} checks fail, see below. "
        what = "The recording" if self.iteration == EVERYTHING else f"Iteration {self.iteration}"
        shares = ", ".join(f"{share} % {cause}" for cause, share in _shares(self.path.by_cause()))
        words = f"{begin}{what} took {milliseconds(self.path.duration_ns)} ms"
        if not self.budgets.waits_recorded:
            return f"{words}; what the program waited for was not recorded; {self._waited()}."
        if shares:
            words += f"; its critical path is {shares}"
        if self.num_ranks == 1:
            return f"{words}."
        return f"{words}{self._mostly()}; {self._waited()}."

    def _mostly(self) -> str:
        assert self.path is not None
        own = self.path.by_rank()
        rank = max(own, key=lambda one: own[one], default=None)
        return "" if rank is None or not own[rank] else f", and runs mostly on rank {rank}"

    def _waited(self) -> str:
        totals = {rank: self.budgets.waited_for(rank) for rank in self.budgets.ranks}
        rank = max(totals, key=lambda one: totals[one], default=None)
        if rank is None or not totals[rank]:
            return "no rank waited for another"
        others = "the others" if self.num_ranks > 2 else f"rank {1 - rank}"
        who = others if self.budgets.waits_recorded else f"collectives of {others}"
        return f"{who} waited {milliseconds(totals[rank])} ms for rank {rank}"

    def to_plain(self) -> dict[str, Any]:
        """As values that JSON knows."""
        path = self.path
        return {
            "headline": self.headline,
            "holds": self.holds,
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
                {"rank": rank, "phase": phase.value, **asdict(budget), "overlap": budget.overlap}
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
    """A time that is read from afar: three digits, or two places."""
    value = ns / 1e6
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _shares(times: dict[Cause, int]) -> list[tuple[Cause, int]]:
    """Whole percents that sum to 100, the largest first; what rounds to none is left out."""
    whole = sum(times.values())
    if not whole:
        return []
    shares = {cause: 100 * ns // whole for cause, ns in times.items()}
    by_rest = sorted(times, key=lambda cause: -(100 * times[cause] % whole))
    for cause in by_rest[: 100 - sum(shares.values())]:
        shares[cause] += 1
    return sorted(((c, share) for c, share in shares.items() if share), key=lambda one: -one[1])


def report(
    graph: EventGraph, iteration: int | None = None, *, rank: int | None = None, top: int = 10
) -> GraphReport:
    """Answer everything about one iteration; the checks are held against the whole trace.

    Args:
        graph: of a whole trace.
        iteration: the last complete one by default.
        rank: whose events to list with their slack; none by default.
        top: how many steps of the path to name.

    Raises:
        ConfigError: there is no such iteration or rank.
    """
    trace = graph.trace
    known = _iterations(trace)
    chosen = _choose(trace, known, iteration)
    if rank is not None and rank not in (ranks := [one.rank for one in trace.ranks]):
        raise ConfigError(
            f"rank {rank} is not in {trace.folder}: expected one of {', '.join(map(str, ranks))}"
        )
    part = graph.within(chosen)
    checks = check_graph(graph)
    has_cycle = any(
        violation.kind is ViolationKind.CYCLE for check in checks for violation in check.violations
    )
    path = None if has_cycle else critical_path(part)
    spent = budgets(part)
    return GraphReport(
        num_ranks=trace.manifest.num_ranks,
        iteration=chosen,
        iterations=known,
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        path=path,
        budgets=spent,
        bandwidths=bandwidths(part),
        steps=() if path is None else tuple(_steps(part, path))[:top],
        slacks=() if path is None or rank is None else tuple(_slacks(part, rank)),
        checks=checks,
        clocks=graph.clocks.hosts,
        notes=tuple(_notes(graph, waits_recorded=spent.waits_recorded)),
    )


def _iterations(trace: Trace) -> tuple[int, ...]:
    seen = {event.iteration for rank in trace.ranks for event in rank.events}
    return tuple(sorted(iteration for iteration in seen if iteration >= 0))


def _choose(trace: Trace, known: tuple[int, ...], wanted: int | None) -> int:
    """The last iteration that all finished; of a run that ended in its first, that one."""
    if wanted is None:
        complete = iterations(trace)
        return complete[-1] if complete else known[0] if known else EVERYTHING
    if wanted not in known:
        if not known:
            expected = "the program has no iterations: leave --iteration out"
        elif len(known) > 2 and known[-1] - known[0] == len(known) - 1:
            expected = f"expected one of {known[0]} to {known[-1]}"
        else:
            expected = f"expected one of {', '.join(map(str, known))}"
        raise ConfigError(f"iteration {wanted} is not in {trace.folder}: {expected}")
    return wanted


def _steps(graph: EventGraph, path: CriticalPath) -> Iterator[Step]:
    """The nodes of a path with their time, by cause, the longest first."""
    total: dict[tuple[int, Cause, bool], int] = defaultdict(int)
    begin: dict[tuple[int, Cause, bool], int] = {}
    for piece in path.pieces:
        key = (piece.node, piece.cause, piece.start_ns < graph.at[piece.node])
        total[key] += piece.duration_ns
        begin.setdefault(key, piece.start_ns)
    for key, time in sorted(total.items(), key=lambda item: (-item[1], begin[item[0]])):
        node, cause, is_before = key
        event = graph.event_of(node)
        label = graph.label(node)
        if is_before and begin[key] == path.start_ns:
            label = f"rank {graph.rank[node]} came later than the first"
        elif cause is Cause.OTHER:
            label = f"own code {'before' if is_before else 'after'}: {label}"
        elif cause is Cause.WAITING:
            label = f"hand-over before: {label}"
        yield Step(
            rank=int(graph.rank[node]),
            label=label,
            unit="" if event is None else event.unit,
            phase=PHASES[graph.phase[node]].value,
            cause=cause,
            start_ns=begin[key] - path.start_ns,
            duration_ns=time,
            source="" if event is None else event.source,
        )


_LISTED = (NodeKind.COMPUTE, NodeKind.WAIT, NodeKind.CALL)


def _slacks(graph: EventGraph, rank: int) -> Iterator[Slack]:
    spare = slack(graph)
    nodes = (graph.is_kind(*_LISTED) & (graph.rank == rank)).nonzero()[0]
    zero = int(graph.start.min()) if graph.num_nodes else 0
    for node in sorted(nodes.tolist(), key=lambda one: int(graph.start[one])):
        yield Slack(
            rank=rank,
            label=graph.label(node),
            phase=PHASES[graph.phase[node]].value,
            start_ns=int(graph.start[node]) - zero,
            duration_ns=int(graph.end[node] - graph.start[node]),
            slack_ns=int(spare[node]),
        )


def _notes(graph: EventGraph, *, waits_recorded: bool) -> Iterator[str]:
    trace, others = graph.trace, graph.clocks.hosts[1:]
    yield from trace.warnings
    if any(clock.is_contradictory or clock.uncertainty_ns is None for clock in others):
        yield "the hosts' clocks could not be brought to one: times between hosts prove nothing"
    elif others:
        most = max(clock.uncertainty_ns or 0 for clock in others)
        yield f"between hosts, times are certain to ± {most / 1000:,.1f} µs only"
    if not waits_recorded:
        yield (
            "this program's waits were not recorded, so its critical path, exposed communication "
            "and overlap are not known"
        )
    unseen = sum(
        event.kind is Kind.COLLECTIVE and event.end_ns is None and event.id not in rank.unfinished
        for rank in trace.ranks
        for event in rank.events
    )
    if unseen:
        yield (
            f"the ends of {unseen:,} calls were not seen (a GPU moves bytes later than the call "
            "that asks): they count as over when the wait for them was"
        )
