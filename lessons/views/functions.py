"""Figures of who asked: functions of DeepSpeed, and those of zerosim's engine for the same act.

Imports the standard library, `lessons.facts` and `views.model`.
"""

from __future__ import annotations

from itertools import zip_longest

from zerosim.lessons.facts import Facts
from zerosim.lessons.facts.functions import AskedStep, Place
from zerosim.lessons.views.model import FigureTable


def asked(facts: Facts, run: str, ours: str) -> FigureTable:
    """Each step of a run of DeepSpeed, the function that made it, and ours for the same act."""
    own = {(one.phase, one.purpose): one for one in reversed(facts.asked_steps(ours))}
    rows = []
    for step in facts.asked_steps(run):
        mine = own.get((step.phase, step.purpose))
        rows.append(
            (
                f"{step.phase}: {step.purpose}{', ahead' if step.is_ahead else ''}",
                _called(step),
                _shown(step.decides),
                "nothing" if mine is None else _shown(mine.way[-1]),
            )
        )
    return FigureTable(
        f"{facts.title(run)}: what rank 0 asks for until its first update is over, and who asks",
        ("step", "called", "DeepSpeed's function", "zerosim's"),
        tuple(rows),
    )


def way(facts: Facts, run: str, ours: str, *step: str) -> FigureTable:
    """The functions on the way to one call, in DeepSpeed and in zerosim's engine.

    Args:
        step: phase and purpose of the call; and a function that it is to come through, if any.
    """
    phase, purpose, *through = step
    found = facts.way_of(run, phase, purpose, *through)
    own = facts.way_of(ours, phase, purpose)
    rows = tuple((_shown(one), _shown(mine)) for one, mine in zip_longest(found, own))
    return FigureTable(
        f"{facts.title(run)}, {phase}, {purpose}: from the program's line to the call",
        ("DeepSpeed's functions", "zerosim's, for the same act"),
        rows,
    )


def _called(step: AskedStep) -> str:
    times = f"{step.calls} {step.op}{'s' * (step.calls > 1)}"
    if not step.elements:
        return times
    return f"{times}, {step.elements:,} element{'s' * (step.elements > 1)}"


def _shown(place: Place | None) -> str:
    return "" if place is None else f"{place.short}, {place.where}"
