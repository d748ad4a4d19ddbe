"""Time by cause, as tables: the critical path, the ranks' budgets, their pieces."""

from __future__ import annotations

from zerosim.analysis import Budget, GraphReport, RankActivity, occupancy
from zerosim.analysis.graph import EventGraph
from zerosim.analysis.graph.kinds import PHASES
from zerosim.base.errors import ConfigError
from zerosim.base.tables import Cell, Column, Evidence, Table
from zerosim.view.reading.traffic_tables import keys_of

_CAUSE = "cause"
_BUDGETS = ("rank", "phase")
_PARTS = (
    "wall_ns",
    "compute_ns",
    "exposed_ns",
    "waiting_ns",
    "copying_ns",
    "other_ns",
    "hidden_ns",
)
_NO_WAITS = "the waits of the program were not recorded"
_NO_TIMES = "the times of calls were not recorded"
_DEADLOCK = "the collectives wait for each other in a cycle"


def time(report: GraphReport, by: object, title: str) -> Table:
    """Time by cause.

    Args:
        by: "cause" for the critical path over all ranks; "rank", "phase" or both for the budgets of
            the ranks, whose parts sum to the wall time.
    """
    keys = keys_of(by, (_CAUSE, *_BUDGETS))
    if _CAUSE in keys:
        if len(keys) > 1:
            raise ConfigError(
                f"by is {keys!r}: expected 'cause' alone, or some of {', '.join(_BUDGETS)}"
            )
        return _by_cause(report, title)
    is_known = report.budgets.waits_recorded
    rows = []
    ranks = report.budgets.ranks if "rank" in keys else (None,)
    phases = report.budgets.phases if "phase" in keys else (None,)
    for rank in ranks:
        for phase in phases:
            place = {"rank": rank, "phase": phase}
            budget = report.budgets.of(rank=rank, phase=phase)
            rows.append((*(place[key] for key in keys), *_parts(budget, is_known=is_known)))
    return Table(
        title,
        (*map(Column, keys), *(Column(name, Evidence.COMPUTED) for name in _PARTS)),
        tuple(rows),
        () if is_known else (_NO_WAITS,),
    )


def critical_path(report: GraphReport) -> Table:
    """The entities on the critical path, the longest first."""
    columns = ("rank", "what", "phase", "unit", "cause")
    rows = [
        (
            step.rank,
            step.label,
            step.phase,
            step.unit,
            step.cause.value,
            step.start_ns,
            step.duration_ns,
            step.source,
        )
        for step in report.steps
    ]
    timed = (Column("start_ns", Evidence.TRACED), Column("duration_ns", Evidence.COMPUTED))
    notes = report.notes if report.path is not None else (_no_path(report), *report.notes)
    return Table(
        report.headline,
        (*map(Column, columns), *timed, Column("source", Evidence.TRACED)),
        tuple(rows),
        notes,
    )


def pieces(graph: EventGraph, title: str) -> Table:
    """The activity of each rank over time, split at every start and end of an event.

    Args:
        graph: of one iteration; times count from its first event.
    """
    zero = int(graph.start.min()) if graph.num_nodes else 0
    rows: list[tuple[Cell, ...]] = []
    for place, rank in enumerate(graph.trace.ranks):
        found = occupancy(graph, place)
        for at in range(len(found.start)):
            start, end = int(found.start[at]), int(found.end[at])
            if start == end:
                continue
            state = RankActivity(int(found.state[at])).name.lower()
            phase = PHASES[int(found.phase[at])]
            is_moving = bool(found.communicates[at])
            rows.append((rank.rank, start - zero, end - start, phase.value, state, is_moving))
    return Table(
        title,
        (
            Column("rank"),
            Column("start_ns", Evidence.TRACED),
            Column("duration_ns", Evidence.TRACED),
            Column("phase", Evidence.TRACED),
            Column("state", Evidence.COMPUTED),
            Column("communicates", Evidence.COMPUTED),
        ),
        tuple(rows),
    )


def _by_cause(report: GraphReport, title: str) -> Table:
    columns = (Column(_CAUSE), Column("duration_ns", Evidence.COMPUTED))
    if report.path is None:
        return Table(title, columns, (), (_no_path(report),))
    if not report.budgets.waits_recorded:
        return Table(title, columns, (("everything", report.path.duration_ns),), (_NO_WAITS,))
    rows = tuple((cause.value, ns) for cause, ns in report.path.by_cause().items())
    return Table(title, columns, rows)


def _parts(budget: Budget, *, is_known: bool) -> list[int | None]:
    """The parts of a budget; without recorded waits, only the wall time is known."""
    return [getattr(budget, name) if is_known or name == "wall_ns" else None for name in _PARTS]


def _no_path(report: GraphReport) -> str:
    """The reason for a missing critical path."""
    return _DEADLOCK if report.is_timed else _NO_TIMES
