"""Figures of what is predicted. Imports `lessons.facts` and `views.model`."""

from __future__ import annotations

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, Bars, FigureTable, Part

_CHANGES = ("no straggler", "ten times the bandwidth", "computing twice as fast", "overlap")


def scales(facts: Facts, *runs: str) -> Bars:
    """The critical path of dry runs, as predicted."""
    bars = []
    for run in runs:
        took = facts.took_ms(run)
        parts = tuple(
            Part(cause, facts.path_share(run, cause) * took)
            for cause in ("compute", "communication")
        )
        bars.append(Bar(facts.title(run), parts))
    return Bars("The critical path of one step, by cause, predicted", "ms", tuple(bars))


def changes(facts: Facts, *runs: str) -> FigureTable:
    """What steps would take if something were different, as predicted."""
    rows = tuple(
        (
            run.partition("/")[0],
            f"{facts.took_ms(run):,.1f}",
            *(f"{facts.would_take_ms(run, change):,.1f}" for change in _CHANGES),
        )
        for run in runs
    )
    columns = ("ms of one step", "recorded", *(f"predicted, {change}" for change in _CHANGES))
    return FigureTable("What one step took, and what it would take", columns, rows)
