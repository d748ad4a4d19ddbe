"""The full report of one iteration; its checks cover the whole trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from zerosim.analysis.bandwidth import bandwidths
from zerosim.analysis.budget import budgets
from zerosim.analysis.graph import EventGraph, NodeKind, ViolationKind, check_graph
from zerosim.analysis.graph.kinds import PHASES
from zerosim.analysis.graph.ondevice import is_on_device
from zerosim.analysis.path import CriticalPath, PathPiece, TimeCause, critical_path, slack
from zerosim.analysis.report import GraphReport, PathStep, Slack
from zerosim.analysis.wording import said
from zerosim.base.errors import ConfigError
from zerosim.record import Trace, iterations
from zerosim.schema.events import WHOLE, Kind
from zerosim.schema.manifest import Source


def report(
    graph: EventGraph, iteration: int | None = None, *, rank: int | None = None, top: int = 10
) -> GraphReport:
    """Create the full report of one iteration; its checks cover the whole trace.

    Args:
        graph: the graph of a whole trace.
        iteration: by default the last complete one.
        rank: the rank whose events are listed with their slack; none by default.
        top: number of steps of the path to list.

    Raises:
        ConfigError: there is no such iteration or rank.
    """
    trace = graph.trace
    chosen = choose_iteration(trace, iteration)
    if rank is not None and rank not in (ranks := [one.rank for one in trace.ranks]):
        raise ConfigError(
            f"rank {rank} is not in {trace.folder}: expected one of {', '.join(map(str, ranks))}"
        )
    part = graph.within(chosen)
    checks = check_graph(graph)
    has_cycle = any(
        violation.kind is ViolationKind.CYCLE for check in checks for violation in check.violations
    )
    is_timed = trace.manifest.is_timed
    path = None if has_cycle or not is_timed else critical_path(part)
    spent = budgets(part)
    return GraphReport(
        num_ranks=trace.manifest.num_ranks,
        iteration=chosen,
        iterations=_iterations(trace),
        num_nodes=graph.num_nodes,
        num_edges=graph.num_edges,
        path=path,
        budgets=spent,
        bandwidths=bandwidths(part) if is_timed else (),
        steps=() if path is None else tuple(_steps(part, path))[:top],
        slacks=() if path is None or rank is None else tuple(_slacks(part, rank)),
        checks=checks,
        clocks=graph.clocks.hosts if is_timed else (),
        notes=tuple(_notes(graph, waits_recorded=spent.waits_recorded)),
        is_predicted=trace.manifest.is_predicted,
        is_timed=is_timed,
        compares_ranks=_compares_ranks(graph),
    )


def _compares_ranks(graph: EventGraph) -> bool:
    """Whether calls of several ranks can be matched to collectives; may be False if imported."""
    if graph.trace.manifest.source is not Source.IMPORTED:
        return True
    return any(len(collective.events) > 1 for collective in graph.matching.collectives)


def _iterations(trace: Trace) -> tuple[int, ...]:
    """Iterations with events, and those without calls, as on one rank."""
    seen = {iteration for rank in trace.ranks for iteration in rank.events.column("iteration")}
    seen.update(iterations(trace))
    return tuple(sorted(iteration for iteration in seen if iteration >= 0))


def choose_iteration(trace: Trace, wanted: int | None) -> int:
    """The last iteration that all ranks finished; the first one if no iteration was finished.

    Raises:
        ConfigError: there is no such iteration.
    """
    known = _iterations(trace)
    if wanted is None:
        complete = iterations(trace)
        return complete[-1] if complete else known[0] if known else WHOLE
    if wanted not in known:
        if not known:
            expected = "the program has no iterations: leave --iteration out"
        elif len(known) > 2 and known[-1] - known[0] == len(known) - 1:
            expected = f"expected one of {known[0]} to {known[-1]}"
        else:
            expected = f"expected one of {', '.join(map(str, known))}"
        raise ConfigError(f"iteration {wanted} is not in {trace.folder}: {expected}")
    return wanted


def _steps(graph: EventGraph, path: CriticalPath) -> Iterator[PathStep]:
    """The nodes of a path with their time, by cause, the longest first."""
    total: dict[tuple[int, TimeCause, bool], int] = defaultdict(int)
    begin: dict[tuple[int, TimeCause, bool], int] = {}
    for piece in path.pieces:
        key = (piece.node, piece.cause, piece.start_ns < graph.at[piece.node])
        total[key] += piece.duration_ns
        begin.setdefault(key, piece.start_ns)
    for key, time in sorted(total.items(), key=lambda item: (-item[1], begin[item[0]])):
        node, cause, _ = key
        rank, first = int(graph.rank[node]), begin[key]
        event = graph.event_of(node)
        yield PathStep(
            rank=rank,
            label=name_piece(graph, path, PathPiece(node, rank, cause, first, first + time)),
            unit="" if event is None else event.unit,
            phase=PHASES[graph.phase[node]].value,
            cause=cause,
            start_ns=begin[key] - path.start_ns,
            duration_ns=time,
            source="" if event is None else event.source,
        )


def name_piece(graph: EventGraph, path: CriticalPath, piece: PathPiece) -> str:
    """A piece of a path, in words."""
    label = graph.label(piece.node)
    is_before = piece.start_ns < graph.at[piece.node]
    if is_before and piece.start_ns == path.start_ns:
        return said("pieces.late", rank=graph.rank[piece.node])
    if piece.cause is TimeCause.OTHER:
        return said("pieces.before" if is_before else "pieces.after", label=label)
    if piece.cause is TimeCause.SCHEDULING:
        return said("pieces.scheduling", label=label)
    return label


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


def _which_clock(trace: Trace) -> Iterator[str]:
    """A note on the clock of the times, if there is a device."""
    if all(rank.header.device == "cpu" for rank in trace.ranks):
        return
    if not any(map(is_on_device, trace.ranks)):
        yield said("notes.of_host")
        return
    clocks = [rank.device_clock for rank in trace.ranks if rank.device_clock is not None]
    most = max((clock.uncertainty_ns for clock in clocks), default=None)
    if most is None:
        yield said("notes.of_device")
    else:
        yield said("notes.aligned", time=f"{most / 1000:,.1f}")
    if lost := sum(clock.num_lost for clock in clocks):
        yield said("notes.lost", count=f"{lost:,}")


def _notes(graph: EventGraph, *, waits_recorded: bool) -> Iterator[str]:
    trace, others = graph.trace, graph.clocks.hosts[1:]
    yield from trace.warnings
    if not trace.manifest.is_timed:
        return
    yield from _which_clock(trace)
    if any(clock.is_contradictory or clock.uncertainty_ns is None for clock in others):
        yield said("notes.clocks")
    elif others:
        most = max(clock.uncertainty_ns or 0 for clock in others)
        yield said("notes.certain", time=f"{most / 1000:,.1f}")
    if not waits_recorded:
        yield said("notes.waits")
    unseen = sum(
        event.end_ns is None and event.id not in rank.unfinished
        for rank in trace.ranks
        for _, event in rank.events.of_kind(Kind.COLLECTIVE)
    )
    if unseen:
        end = "end" if unseen == 1 else "ends"
        key = "unseen" if waits_recorded else "unrecorded"
        yield said(f"notes.{end}_{key}", count=f"{unseen:,}")
