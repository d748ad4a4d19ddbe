"""Compare: the benefit and cost of a stage. This module chooses the runs; the player shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from zerosim.base.errors import ConfigError
from zerosim.dashboards.entry import TraceEntry
from zerosim.dashboards.library import Library
from zerosim.dashboards.texts import SITE
from zerosim.view.replay.alignment import FEWEST, MOST

PATH = "/compare"
TITLE = "pages.compare"
MAIN = "compare/main.js"
"""The page's first module, in the player."""


@dataclass(frozen=True, slots=True)
class RunChoice:
    """A run that can be chosen.

    Attributes:
        is_chosen: whether it is one of the compared runs.
        is_other: whether its model differs from theirs.
    """

    name: str
    title: str
    is_chosen: bool
    is_other: bool


@dataclass(frozen=True, slots=True)
class CompareView:
    """The contents of the page.

    Attributes:
        names: names of the runs, in display order.
        choices: all runs that can be shown.
    """

    names: tuple[str, ...]
    choices: tuple[RunChoice, ...]
    fewest: int = FEWEST
    most: int = MOST

    @property
    def query(self) -> str:
        """The runs as the query of an address."""
        return query_of(self.names)

    @property
    def replays(self) -> tuple[str, ...]:
        """The address of the runs' documents."""
        return tuple(f"/api/replay?{query_of([name])}" for name in self.names)


def query_of(names: Sequence[str]) -> str:
    """The query for runs."""
    return urlencode([("trace", name) for name in names])


def chosen(library: Library, asked: Sequence[str]) -> tuple[str, ...]:
    """The runs to compare: the requested ones, or one and those beside it.

    Raises:
        TraceError: there is no such run, or it cannot be shown.
        ConfigError: there is no run beside it.
    """
    names = tuple(dict.fromkeys(asked))
    found = [library.find(name) for name in names]
    if len(found) >= FEWEST:
        return names
    first = found[0] if found else library.default()
    if first is None:
        raise ConfigError(SITE("compare.there_is_no_run_here_as"))
    beside = siblings(first, library.entries())
    if len(beside) < FEWEST:
        raise ConfigError(SITE("compare.is_the_only_run_here_and", first=first.name, FEWEST=FEWEST))
    return tuple(entry.name for entry in beside)


def siblings(first: TraceEntry, entries: Sequence[TraceEntry]) -> tuple[TraceEntry, ...]:
    """A run and up to three others, of its model if there are any, by stage.

    Its own folder comes first; then runs with equally many ranks, complete runs and other stages.
    """
    others = [one for one in entries if one.name != first.name and not one.problem]
    beside = [one for one in others if one.model == first.model] or others
    of_folder = [entry for entry in beside if entry.folder.parent == first.folder.parent]
    picked = [first]
    left = of_folder or beside
    while left and len(picked) < MOST:
        stages = {entry.stage for entry in picked}
        best = min(
            left,
            key=lambda entry: (
                entry.num_ranks != first.num_ranks,
                not entry.complete,
                entry.stage in stages,
            ),
        )
        picked.append(best)
        left.remove(best)
    # the first may have left the list since
    place = {entry.name: number for number, entry in enumerate((first, *entries))}
    return tuple(sorted(picked, key=lambda one: (one.stage is None, one.stage, place[one.name])))


def view(names: Sequence[str], entries: Sequence[TraceEntry]) -> CompareView:
    """The contents of the page, for runs from `chosen`."""
    models = {entry.model for entry in entries if entry.name in names} | {""}  # unknown
    return CompareView(
        names=tuple(names),
        choices=tuple(
            RunChoice(
                name=entry.name,
                title=f"{entry.title}{entry.remark}",
                is_chosen=entry.name in names,
                is_other=entry.model not in models,
            )
            for entry in entries
            if not entry.problem
        ),
    )
