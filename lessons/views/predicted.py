"""Figures of predictions."""

from __future__ import annotations

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import each, said

_CHANGES = ("no straggler", "ten times the bandwidth", "computing twice as fast", "overlap")


def scales(facts: Facts, *runs: str) -> Bars:
    """The critical path of dry runs, as predicted."""
    bars = []
    for run in runs:
        took = facts.took_ms(run)
        parts = tuple(
            BarPart(cause, facts.path_share(run, cause) * took)
            for cause in ("compute", "communication")
        )
        bars.append(Bar(facts.title(run), parts))
    return Bars(said("scales.title"), "ms", tuple(bars))


def changes(facts: Facts, *runs: str) -> FigureTable:
    """Predicted durations of steps under changed conditions."""
    rows = tuple(
        (
            run.partition("/")[0],
            f"{facts.took_ms(run):,.1f}",
            *(f"{facts.would_take_ms(run, change):,.1f}" for change in _CHANGES),
        )
        for run in runs
    )
    changed = [said(f"changes.of.{change}") for change in _CHANGES]
    predicted = (said("changes.predicted", change=change) for change in changed)
    columns = (*each("changes.columns"), *predicted)
    return FigureTable(said("changes.title"), columns, rows)
