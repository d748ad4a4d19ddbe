"""The turns of a pipeline: dependencies of computations, if every turn takes the same time.

A turn is a computation, a forward or a backward of a micro-batch on a stage. Messages take no time,
and sends do not wait.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from zerosim.puzzles.messages import origins
from zerosim.record import RankTrace, Trace
from zerosim.schema.events import Event, Kind, Op


@dataclass(frozen=True, slots=True)
class ScheduledTurn:
    """A computation.

    Attributes:
        number: its turn, from 1.
        idle: number of turns for which its rank was idle before it.
    """

    event: Event
    number: int
    idle: int


def turns(trace: Trace, iteration: int) -> list[ScheduledTurn]:
    """The computations of an iteration, rank by rank in their order."""
    origin = origins(trace)
    todo = {rank.rank: deque(_steps(rank, iteration)) for rank in trace.ranks}
    sent: dict[tuple[int, int], int] = {}
    clock: dict[int, int] = defaultdict(int)
    worked: dict[int, int] = defaultdict(int)
    found: list[ScheduledTurn] = []
    moves = True
    while moves:
        moves = False
        for rank, steps in todo.items():
            while steps:
                is_ready = (rank, steps[0].id) not in origin or origin[rank, steps[0].id] in sent
                if steps[0].op is Op.RECEIVE and not is_ready:
                    break
                event = steps.popleft()
                moves = True
                if event.op is Op.SEND:
                    sent[rank, event.id] = clock[rank]
                elif event.op is Op.RECEIVE:
                    source = origin.get((rank, event.id))
                    clock[rank] = max(clock[rank], 0 if source is None else sent[source])
                else:
                    found.append(ScheduledTurn(event, clock[rank] + 1, clock[rank] - worked[rank]))
                    clock[rank] += 1
                    worked[rank] = clock[rank]
    return sorted(found, key=lambda one: (one.event.rank, one.number))


def longest_idle(found: Iterable[ScheduledTurn]) -> ScheduledTurn | None:
    """The turn before which its rank was idle longest; None if no rank was idle."""
    seen: set[int] = set()
    between = []
    for one in found:
        if one.event.rank in seen:
            between.append(one)
        seen.add(one.event.rank)
    return max((one for one in between if one.idle), key=lambda one: one.idle, default=None)


def _steps(rank: RankTrace, iteration: int) -> Iterable[Event]:
    """Computations, sends at their issue, receives at their wait."""
    receives = {
        event.id: event
        for _, event in rank.events.of_kind(Kind.COLLECTIVE)
        if event.op is Op.RECEIVE
    }
    for event in rank.events:
        is_send = event.kind is Kind.COLLECTIVE and event.op is Op.SEND
        if event.kind is Kind.WAIT and event.parent in receives:
            yield receives[event.parent]
        elif is_send or (event.kind is Kind.COMPUTE and event.iteration == iteration):
            yield event
