"""The step in Replay for an event of a program's trace."""

from __future__ import annotations

from zerosim.base.errors import ZerosimError
from zerosim.record import Trace
from zerosim.schema.events import Event
from zerosim.view.replay.subject import Subject


def step_of(trace: Trace, event: Event) -> int | None:
    """The step of an event in the replay of its iteration, from 1; None if there is none."""
    try:
        place = Subject(trace, event.iteration).step_with(event.rank, event.id)
    except ZerosimError:
        return None
    return None if place is None else place + 1
