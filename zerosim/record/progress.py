"""The progress of the ranks of a trace."""

from __future__ import annotations

from itertools import pairwise

from zerosim.record.rankfile import RankTrace
from zerosim.record.store import Trace
from zerosim.schema.events import Phase


def iterations(trace: Trace) -> tuple[int, ...]:
    """The iterations that every rank finished, ascending.

    A rank finished an iteration if it entered a later one, left the iteration's update phase, or
    closed its trace properly; and if nothing in it is open or failed. If iterations have an update,
    the rest after the last one is not an iteration.
    """
    if len(trace.ranks) + trace.num_alike + len(trace.lacks) < trace.manifest.num_ranks:
        return ()
    finished = [_finished(rank) for rank in trace.ranks]
    return tuple(sorted(set.intersection(*finished)))


def still_in(trace: Trace, iteration: int) -> tuple[int, ...]:
    """Ranks whose traces stop, temporarily or for good, before they finished an iteration."""
    stopped = [rank for rank in trace.ranks if not rank.complete or rank.failure is not None]
    return tuple(rank.rank for rank in stopped if iteration not in _finished(rank))


def ended_early(trace: Trace) -> bool:
    """Whether a rank failed, or its trace stops before its end."""
    return not trace.complete or any(rank.failure is not None for rank in trace.ranks)


def why_early(trace: Trace) -> str:
    """The rank that failed first independently, or whose trace stops; "" if all ended properly."""
    failed = [rank for rank in trace.ranks if rank.failure is not None]
    failed.sort(key=lambda rank: rank.failure is not None and rank.failure.peer_lost)
    for rank in failed:
        assert rank.failure is not None
        return f"rank {rank.rank} failed with {rank.failure.message}"
    return trace.warnings[0] if trace.warnings else ""


def without_update(trace: Trace) -> tuple[int, ...]:
    """Finished iterations without an update, in a run in which others have one."""
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
