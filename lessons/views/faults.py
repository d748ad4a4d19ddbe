"""Figures of runs that go wrong, and of ranks that are held.

Imports `lessons.facts` and `views.model`.
"""

from __future__ import annotations

from collections.abc import Sequence

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import FigureTable


def endings(facts: Facts, run: str) -> FigureTable:
    """The call that each rank made last, and how its trace ends."""
    rows = tuple(
        (label, facts.last_call(run, int(rank)), facts.ending(run, int(rank)))
        for rank, label in facts.ranks(run)
    )
    title = "What each rank called last, and how it ended"
    return FigureTable(title, ("", "last call", "ended"), rows)


def orders(facts: Facts, run: str) -> FigureTable:
    """What each rank gathered in the forward of its second iteration, in its order."""
    rows = tuple((label, *facts.first_calls(run, int(rank), 1)) for rank, label in facts.ranks(run))
    columns = ("", *(f"{place}." for place in range(1, len(rows[0]))))
    return FigureTable("What each rank gathered in its second forward, in order", columns, rows)


def verdict(facts: Facts, run: str) -> FigureTable:
    """What `zerosim diagnose` says."""
    return FigureTable("zerosim diagnose", ("", "says"), tuple(facts.told(run)))


def session(facts: Facts, run: str, part: str) -> FigureTable:
    """A part of what was said to those who hold the ranks, and what came back."""
    rows = []
    for command, lines in facts.session(run, part):
        said = _looked(lines) if command.startswith("look ") else lines
        said = [" ".join(line.split()) for line in said] or [""]
        rows += [(command if not place else "", line) for place, line in enumerate(said)]
    return FigureTable("Said to the ranks, and what they answered", ("(zerosim)", ""), tuple(rows))


def _looked(lines: Sequence[str]) -> list[str]:
    """What was looked at on each rank, without histogram and first values."""
    found = []
    for line in lines[1:]:
        rank, dtype, elements, norm, _, _, checksum, *_ = line.split()
        found.append(f"rank {rank}: {elements} {dtype}, norm {norm}, checksum {checksum}")
    return found
