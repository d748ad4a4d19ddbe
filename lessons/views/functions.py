"""Figures of callers: functions of DeepSpeed, and those of zerosim's engine for the same action."""

from __future__ import annotations

from itertools import zip_longest

from zerosim.base.language import term
from zerosim.lessons.facts import Facts
from zerosim.lessons.facts.functions import AskedStep, CallSite
from zerosim.lessons.views.model import FigureTable
from zerosim.lessons.views.wording import each, said


def asked(facts: Facts, run: str, ours: str) -> FigureTable:
    """Each step of a DeepSpeed run, the function that made it, and ours for the same action."""
    own = {(one.phase, one.purpose): one for one in reversed(facts.asked_steps(ours))}
    rows = []
    for step in facts.asked_steps(run):
        mine = own.get((step.phase, step.purpose))
        rows.append(
            (
                said(
                    "asked.ahead" if step.is_ahead else "asked.step",
                    phase=term(step.phase),
                    purpose=term(step.purpose),
                ),
                _called(step),
                _shown(step.decides),
                said("asked.nothing") if mine is None else _shown(mine.way[-1]),
            )
        )
    return FigureTable(
        said("asked.title", run=facts.title(run)),
        each("asked.columns"),
        tuple(rows),
    )


def way(facts: Facts, run: str, ours: str, *step: str) -> FigureTable:
    """The functions on the stack of one call, in DeepSpeed and in zerosim's engine.

    Args:
        step: phase and purpose of the call; and a function on its stack, if any.
    """
    phase, purpose, *through = step
    found = facts.way_of(run, phase, purpose, *through)
    own = facts.way_of(ours, phase, purpose)
    rows = tuple((_shown(one), _shown(mine)) for one, mine in zip_longest(found, own))
    return FigureTable(
        said("way.title", run=facts.title(run), phase=term(phase), purpose=term(purpose)),
        each("way.columns"),
        rows,
    )


def _called(step: AskedStep) -> str:
    key = "asked.called" if step.elements else "asked.called_alone"
    return said(key, count=step.calls, op=term(step.op), elements=f"{step.elements:,}")


def _shown(place: CallSite | None) -> str:
    return "" if place is None else f"{place.short}, {place.where}"
