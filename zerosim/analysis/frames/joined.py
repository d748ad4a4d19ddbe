"""Collectives that are one step of a replay: equal actions of several groups of ranks.

In a run of our engine, the groups of ZeRO++ or of tensor parallelism act equally at the same point
of the program: all gathers of a unit within its nodes are one step, and so are the messages with
which all ranks send a unit to its owner. In other programs the names decide: the gathers of a
module within each replica, the sums of a layer in each of the groups that compute it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from zerosim.record import MatchedCollective, Matching, Trace
from zerosim.schema.events import Event

_Alike = tuple[object, ...]


def join(
    trace: Trace, matching: Matching, indices: Iterable[int], name: Callable[[Event], str]
) -> dict[int, tuple[int, ...]]:
    """By representative collective, all collectives of its step, ascending.

    Args:
        indices: indices in the matching of the displayed ones, of one iteration.
        name: the name of a call's unit.
    """
    is_program = not trace.manifest.units
    seen: Counter[tuple[_Alike, tuple[int, ...]]] = Counter()
    alike: dict[_Alike, list[int]] = defaultdict(list)
    for index in sorted(indices):
        matched = matching.collectives[index]
        event = next(iter(matched.events.values()))
        of_all = len(matched.key.ranks) == trace.manifest.num_ranks and not matched.key.is_message
        unit = name(event)
        if is_program and (not unit or matched.key.is_message):
            of_all = True  # a call without a unit cannot be matched with others
        what = (matched.op, event.purpose, unit, event.phase, event.micro_step)
        nth = seen[what, matched.key.ranks]
        seen[what, matched.key.ranks] += 1
        alike[(index,) if of_all else (*what, *_shape(matched), nth)].append(index)
    return {members[0]: tuple(members) for members in alike.values()}


def _shape(matched: MatchedCollective) -> tuple[int, int]:
    """Number of ranks, and their distance: neighbours, or ranks at the same index of their
    nodes.
    """
    ranks = matched.key.ranks
    if matched.key.is_message:
        return 2, 0
    return len(ranks), ranks[1] - ranks[0] if len(ranks) > 1 else 0


def together(matching: Matching, members: tuple[int, ...]) -> MatchedCollective:
    """Several collectives as one: the first call of each rank."""
    first = matching.collectives[members[0]]
    if len(members) == 1:
        return first
    events = {
        rank: event
        for index in reversed(members)
        for rank, event in matching.collectives[index].events.items()
    }
    return replace(first, events=dict(sorted(events.items())))


def groups_of(
    matching: Matching, members: tuple[int, ...], num_ranks: int
) -> tuple[tuple[int, ...], ...]:
    """The groups that communicate; empty for a single group of all ranks, and for messages.

    Args:
        num_ranks: of the run.
    """
    found = [matching.collectives[index].key for index in members]
    if found[0].is_message or len(found[0].ranks) == num_ranks:
        return ()
    return tuple(sorted(key.ranks for key in found))


def stand_in(joined: Mapping[int, tuple[int, ...]]) -> dict[int, int]:
    """By collective, its representative."""
    return {index: first for first, members in joined.items() for index in members}
