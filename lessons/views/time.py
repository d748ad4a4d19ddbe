"""Figures of time, as `zerosim graph` has it."""

from __future__ import annotations

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import each, said

_STATES = ("compute", "exposed", "waiting", "other")
_CAUSES = {
    "compute": "compute",
    "communication": "communication",
    "scheduling": "scheduling (hand-over between threads)",
    "other": "other",
}


def compute(facts: Facts, run: str) -> Bars:
    """Computing time of each rank in a step."""
    bars = tuple(
        Bar(label, (BarPart("compute", facts.compute_ms(run, int(rank))),))
        for rank, label in facts.ranks(run)
    )
    return Bars(said("compute.title"), "ms", bars)


def budget(facts: Facts, *runs: str) -> Bars:
    """Time of each rank by cause."""
    bars = []
    for run in runs:
        for rank, label in facts.ranks(run):
            values = [getattr(facts, f"{state}_ms")(run, int(rank)) for state in _STATES]
            names = ("compute", "exposed communication", "waiting for others", "other")
            parts = tuple(map(BarPart, names, values))
            bars.append(Bar(said("labels.with", run=run.partition("/")[0], what=label), parts))
    return Bars(said("budget.title"), "ms", tuple(bars))


def overlap(facts: Facts, *runs: str) -> FigureTable:
    """Exposed and hidden communication of runs, side by side; all ranks together."""
    rows = tuple(
        (
            _name(facts, run, runs),
            f"{facts.exposed_ms(run):,.1f}",
            f"{facts.hidden_ms(run):,.1f}",
            f"{100 * facts.overlap(run):.0f} %",
            f"{facts.took_ms(run):,.1f}",
        )
        for run in runs
    )
    return FigureTable(said("overlap.title"), each("overlap.columns"), rows)


def path(facts: Facts, *runs: str) -> Bars:
    """The critical path over all ranks, by cause."""
    bars = []
    for run in runs:
        took = facts.took_ms(run)
        parts = tuple(
            BarPart(words, facts.path_share(run, cause) * took) for cause, words in _CAUSES.items()
        )
        bars.append(Bar(run.partition("/")[0], parts))
    return Bars(said("path.title"), "ms", tuple(bars))


def _name(facts: Facts, run: str, runs: tuple[str, ...]) -> str:
    """A run's distinguishing name: its setting, or the implementation in a common one."""
    settings = {one.partition("/")[0] for one in runs}
    return run.partition("/")[0] if len(settings) == len(runs) else facts.title(run)
