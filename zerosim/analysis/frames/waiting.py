"""The waits during each step: a wait belongs to the steps during which it happened.

A rank's own time passes through the steps as in `Steps.local_times`, so a wait is split where the
rank reaches its next step. It is never assigned to a step in which its cause has ended everywhere:
if a thread notices that a moment late, the wait was still for the last hop.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from zerosim.analysis.frames.step import Step, Wait
from zerosim.schema.events import Event

SHORTEST_WAIT_NS = 50_000
"""Shorter waits are not reported: they are not stalls."""


@dataclass(frozen=True, slots=True)
class Stood:
    """A whole wait.

    Attributes:
        collective: index of the awaited collective, as in steps; None for a copy, or if it is
            not shown.
        start_ns, end_ns: on the graph's clock.
    """

    event: Event
    awaited: Event
    collective: int | None
    start_ns: int
    end_ns: int


def with_waits(found: tuple[Step, ...], stood: Iterable[Stood], zero_ns: int) -> tuple[Step, ...]:
    """The steps, with the waits in each.

    Args:
        found: steps in order, with their ends.
        zero_ns: the origin of the times of steps.
    """
    over = _last_steps(found)
    local: dict[int, list[int]] = {}
    waits: dict[int, list[Wait]] = defaultdict(list)
    for one in stood:
        rank = one.event.rank
        if rank not in local:
            local[rank] = list(accumulate((step.starts.get(rank, 0) for step in found), max))
        begin, end = one.start_ns - zero_ns, one.end_ns - zero_ns
        what: _What = (rank, one.awaited.id) if one.collective is None else one.collective
        for place, start, stop in _cut(local[rank], begin, end, over.get(what, len(found) - 1)):
            if stop - start >= SHORTEST_WAIT_NS:
                waits[place].append(
                    Wait(
                        rank=rank,
                        event=one.event,
                        awaited=one.awaited,
                        start_ns=start,
                        end_ns=stop,
                    )
                )
    return tuple(
        replace(step, waits=tuple(sorted(waits[place], key=lambda wait: wait.rank)))
        if place in waits
        else step
        for place, step in enumerate(found)
    )


_What = int | tuple[int, int]
"""A collective, or a rank's copy."""


def _last_steps(found: Sequence[Step]) -> dict[_What, int]:
    """By cause of a wait, the last step during which it continues."""
    over: dict[_What, int] = {}
    for step in found:
        if step.collective is not None:
            over[step.collective] = max(step.until, over.get(step.collective, 0))
        for rank, event in step.events.items():
            over[rank, event.id] = max(step.until, over.get((rank, event.id), 0))
    return over


def _cut(local: Sequence[int], begin: int, end: int, last: int) -> Iterable[tuple[int, int, int]]:
    """The steps during which a rank waits, with start and end in each.

    Args:
        local: the times at which the rank reaches each step, ascending.
        last: no step after this one.
    """
    place = min(last, max(0, bisect_right(local, begin) - 1))
    start = begin
    while place < last and local[place + 1] < end:
        if local[place + 1] > start:
            yield place, start, local[place + 1]
            start = local[place + 1]
        place += 1
    yield place, start, end
