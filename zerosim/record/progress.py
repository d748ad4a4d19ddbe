"""How far the ranks of a trace came."""

from __future__ import annotations

from itertools import pairwise

from zerosim.record.rankfile import RankTrace
from zerosim.record.store import Trace
from zerosim.schema.events import Phase


def iterations(trace: Trace) -> tuple[int, ...]:
    """The iterations that every rank finished, ascending.

    A rank finished an iteration if it went on to a later one, or left the iteration's update
    phase, or closed its trace in order; and if nothing in it was left open or failed. Where
    iterations have an update, what comes after the last one is none.
    """
    if len(trace.ranks) + trace.num_alike + len(trace.lacks) < trace.manifest.num_ranks:
        return ()
    finished = [_finished(rank) for rank in trace.ranks]
    return tuple(sorted(set.intersection(*finished)))


def still_in(trace: Trace, iteration: int) -> tuple[int, ...]:
    """The ranks whose trace stops, so far or for good, before they had finished an iteration."""
    stopped = [rank for rank in trace.ranks if not rank.complete or rank.failure is not None]
    return tuple(rank.rank for rank in stopped if iteration not in _finished(rank))


def ended_early(trace: Trace) -> bool:
    """Whether a rank failed, or its trace stops before its end."""
    return not trace.complete or any(rank.failure is not None for rank in trace.ranks)


def why_early(trace: Trace) -> str:
    """Who failed first by itself, or whose trace stops; "" if all ended in order."""
    failed = [rank for rank in trace.ranks if rank.failure is not None]
    failed.sort(key=lambda rank: rank.failure is not None and rank.failure.peer_lost)
    for rank in failed:
        assert rank.failure is not None
        return f"rank {rank.rank} failed with {rank.failure.message}"
    return trace.warnings[0] if trace.warnings else ""


def without_update(trace: Trace) -> tuple[int, ...]:
    """The finished iterations that no rank updated anything in, where others have an update."""
    updated = {iteration for rank in trace.ranks for iteration in _updated(rank)}
    return tuple(one for one in iterations(trace) if updated and one not in updated)


def _updated(rank: RankTrace) -> set[int]:
    return {one.iteration for one in rank.wire_samples if one.phase is Phase.UPDATE}


def _finished(rank: RankTrace) -> set[int]:
    of_event = rank.events.column("iteration")
    seen = set(of_event)
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
    updated = _updated(rank)
    if rank.complete and rank.failure is None and (last in updated or not updated):
        finished.add(last)
    left_open = set(rank.unfinished)
    columns = (rank.events.column("id"), of_event, rank.events.column("error"))
    for number, iteration, error in zip(*columns, strict=True):
        if error or number in left_open:
            finished.discard(iteration)
    if rank.failure is not None:
        finished = {iteration for iteration in finished if iteration < rank.failure.iteration}
    return finished
