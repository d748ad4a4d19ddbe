"""The ends of a step: the events before which the ranks are then paused."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from zerosim.debug.steps import History, LiveStep
from zerosim.schema.events import Kind, Phase
from zerosim.schema.stands import Stand


class Goal(StrEnum):
    """The goal of a step."""

    INTO = "into"
    """To the next event: a hop, a message, a computation."""
    OVER = "over"
    """To the next beat."""
    OUT = "out"
    """To the next unit."""
    PHASE = "phase"
    """To the next phase."""
    ITERATION = "iteration"
    """To the next iteration's forward."""


Reached = Callable[[Stand, LiveStep, History], bool]
"""Called with the first and the current paused events, and the events in between."""


def _out(began: Stand, step: LiveStep, _: History) -> bool:
    unit = step.stand.unit
    return bool(unit) and unit != began.unit


def _phase(_: Stand, step: LiveStep, __: History) -> bool:
    return step.stand.kind is Kind.MARK


def _iteration(began: Stand, step: LiveStep, _: History) -> bool:
    stand = step.stand
    is_forward = stand.kind is Kind.MARK and stand.phase is Phase.FORWARD
    return is_forward and stand.iteration != began.iteration


GOALS: dict[Goal, Reached] = {
    Goal.INTO: lambda *_: True,
    Goal.OVER: lambda _, step, history: history.begins_beat(step),
    Goal.OUT: _out,
    Goal.PHASE: _phase,
    Goal.ITERATION: _iteration,
}
