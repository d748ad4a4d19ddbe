"""How far the ranks of a trace came.

Imports the standard library, `zerosim.events` and the loaded `Trace`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from zerosim.events import Phase

if TYPE_CHECKING:
    from zerosim.record.rankfile import RankTrace
    from zerosim.record.store import Trace


def iterations(trace: Trace) -> tuple[int, ...]:
    """The iterations that every rank finished, ascending.

    A rank finished an iteration if it went on to a later one, or left the iteration's update
    phase, or closed its trace in order; and if nothing in it was left open or failed.
    """
    if len(trace.ranks) < trace.manifest.num_ranks:
        return ()
    finished = [_finished(rank) for rank in trace.ranks]
    return tuple(sorted(set.intersection(*finished)))


def _finished(rank: RankTrace) -> set[int]:
    seen = {event.iteration for event in rank.events}
    seen |= {sample.iteration for sample in rank.wire_samples}
    seen = {iteration for iteration in seen if iteration >= 0}
    if not seen:
        return set()
    last = max(seen)
    finished = seen - {last}
    for before, after in pairwise(rank.wire_samples):
        left = after.phase is not Phase.UPDATE or after.iteration != before.iteration
        if before.phase is Phase.UPDATE and left:
            finished.add(before.iteration)
    if rank.complete and rank.failure is None:
        finished.add(last)
    left_open = set(rank.unfinished)
    for event in rank.events:
        if event.error or event.id in left_open:
            finished.discard(event.iteration)
    if rank.failure is not None:
        finished = {iteration for iteration in finished if iteration < rank.failure.iteration}
    return finished
