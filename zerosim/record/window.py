"""The ranks of a light trace without its beginning, trimmed to the part that all of them kept.

Each rank discards its oldest rows independently. Most begin with the same iteration; a killed rank
may have kept an earlier one, which the others have discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import dropwhile

from zerosim.record.eventrows import Events
from zerosim.record.rankfile import RankTrace
from zerosim.schema.events import WHOLE, Event, Kind, Op


def in_common(ranks: Sequence[RankTrace]) -> tuple[RankTrace, ...]:
    """The ranks, each from the first iteration that all of them kept completely.

    For a program without iterations: from the first collective of each group on.
    """
    begins = [rank.begins for rank in ranks if rank.begins is not None]
    if not begins:
        return tuple(ranks)
    begin = max(begins)
    if begin == WHOLE:
        return _with_common_calls(ranks)
    return tuple(_from_iteration(rank, begin) for rank in ranks)


def _from_iteration(rank: RankTrace, begin: int) -> RankTrace:
    return _with_events(
        replace(
            rank,
            begins=begin,
            wire_samples=tuple(
                dropwhile(lambda sample: sample.iteration < begin, rank.wire_samples)
            ),
            metrics=tuple(one for one in rank.metrics if one.iteration >= begin),
            checksums=tuple(one for one in rank.checksums if one.iteration >= begin),
        ),
        (event for event in rank.events if event.iteration >= begin),
    )


def _with_common_calls(ranks: Sequence[RankTrace]) -> tuple[RankTrace, ...]:
    """Calls of a group are numbered; messages are not, so they are not compared."""
    first: dict[str, int] = {}
    for rank in ranks:
        own: dict[str, int] = {}
        for event in rank.events:
            if event.sequence is not None:
                own.setdefault(event.group, event.sequence)
        for group, sequence in own.items():
            first[group] = max(first.get(group, 0), sequence)
    takes = _takes(first)
    return tuple(_with_events(rank, filter(takes, rank.events)) for rank in ranks)


def _takes(first: dict[str, int]) -> Callable[[Event], bool]:
    def takes(event: Event) -> bool:
        if event.kind is not Kind.COLLECTIVE:
            return True
        if event.sequence is None:
            return event.op not in (Op.SEND, Op.RECEIVE)
        return event.sequence >= first[event.group]

    return takes


def _with_events(rank: RankTrace, events: Iterable[Event]) -> RankTrace:
    """The rank with these of its events, and the records that belong to them."""
    kept = tuple(events)
    known = {event.id for event in kept}
    kept = tuple(event for event in kept if event.parent is None or event.parent in known)
    unfinished = tuple(one for one in rank.unfinished if one in known)
    return replace(rank, events=Events(kept), unfinished=unfinished)
