"""Where in Replay a step of a program's trace is to be seen."""

from __future__ import annotations

from zerosim.base.errors import ZerosimError
from zerosim.record import Trace
from zerosim.schema.events import Event
from zerosim.view.replay.subject import Subject


def step_of(trace: Trace, event: Event) -> int | None:
    """The step of an event in the replay of its iteration, from 1; None if there is none."""
    try:
        steps = Subject(trace, event.iteration).steps.steps
    except ZerosimError:
        return None
    for number, step in enumerate(steps, 1):
        if any((r, one.id) == (event.rank, event.id) for r, one in step.events.items()):
            return number
    return None
