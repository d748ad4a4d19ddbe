"""Figures of failing runs, and of paused ranks."""

from __future__ import annotations

from collections.abc import Sequence

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import FigureTable
from zerosim.lessons.views.wording import each, said


def endings(facts: Facts, run: str) -> FigureTable:
    """The call that each rank made last, and how its trace ends."""
    rows = tuple(
        (label, facts.last_call(run, int(rank)), facts.ending(run, int(rank)))
        for rank, label in facts.ranks(run)
    )
    return FigureTable(said("endings.title"), each("endings.columns"), rows)


def orders(facts: Facts, run: str) -> FigureTable:
    """Gathers of each rank in the forward of its second iteration, in order."""
    rows = tuple((label, *facts.first_calls(run, int(rank), 1)) for rank, label in facts.ranks(run))
    columns = ("", *(f"{place}." for place in range(1, len(rows[0]))))
    return FigureTable(said("orders.title"), columns, rows)


def verdict(facts: Facts, run: str) -> FigureTable:
    """The output of `zerosim diagnose`."""
    return FigureTable("zerosim diagnose", ("", said("verdict.says")), tuple(facts.told(run)))


def session(facts: Facts, run: str, part: str) -> FigureTable:
    """A part of a debugger session: commands and replies."""
    rows = []
    for command, lines in facts.session(run, part):
        shown = _looked(lines) if command.startswith("look ") else lines
        shown = [" ".join(line.split()) for line in shown] or [""]
        rows += [(command if not place else "", line) for place, line in enumerate(shown)]
    return FigureTable(said("session.title"), ("(zerosim)", ""), tuple(rows))


def _looked(lines: Sequence[str]) -> list[str]:
    """The inspected tensors on each rank, without histogram and first values."""
    found = []
    for line in lines[1:]:
        rank, dtype, elements, norm, _, _, checksum, *_ = line.split()
        values = {"dtype": dtype, "elements": elements, "norm": norm, "checksum": checksum}
        found.append(said("session.looked", rank=rank, **values))
    return found
