"""The calls of a group, rank by rank, and the first position where the ranks disagree.

Calls match by position (`record.match_collectives`). At a mismatch, the rank that differs from all
others is the culprit; of two that disagree, the one that deviates from its previous iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from zerosim.record import Trace
from zerosim.record.alike import alike_ranks
from zerosim.schema.events import Event, Kind, Op, Phase
from zerosim.verify.diagnosis.differing import MESSAGES, are_of_phases, differences, is_alike

_CONTEXT = 3
_MOST_MOVED = 64
"""Maximum shift between ranks, in calls, that is searched."""


@dataclass(frozen=True, slots=True)
class GroupCalls:
    """A group and the calls of each of its ranks, in order.

    Attributes:
        calls: by rank; all begin with the same sequence number.
        first: the first sequence number.
        is_way: whether its calls are the messages from the first of two ranks to the second.
    """

    name: str
    ranks: tuple[int, ...]
    calls: dict[int, list[Event]]
    first: int = 0
    is_way: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """The first position of a group where its ranks disagree.

    Attributes:
        position: in the lists of `GroupCalls`.
        expected: the call that was due there; None if unknown. For a message, the end that the
            culprit lacks.
        called: the call of each rank there; ranks without one are missing.
        culprits: ranks that did not call as they should; empty if unknown.
        lacking: ranks without a call.
        reference: a rank that called as it should.
    """

    group: GroupCalls
    position: int
    expected: Event | None
    called: dict[int, Event]
    culprits: tuple[int, ...]
    lacking: tuple[int, ...]
    reference: int | None


def groups_of(trace: Trace) -> list[GroupCalls]:
    """Every group of several ranks, with the calls of those of its ranks that have a trace."""
    left_out = alike_ranks(trace.manifest) | set(trace.lacks)
    found: dict[tuple[str, tuple[int, ...]], dict[int, list[Event]]] = {}
    for rank in trace.ranks:
        members = {name: tuple(sorted(set(one.ranks))) for name, one in rank.groups.items()}
        own: dict[str, list[Event]] = {name: [] for name in members}
        for _, event in rank.events.of_kind(Kind.COLLECTIVE):
            is_call = event.parent is None and event.op not in MESSAGES
            if is_call and event.sequence is not None and event.group in own:
                own[event.group].append(event)
        for name, calls in own.items():
            calls.sort(key=lambda event: event.sequence or 0)
            found.setdefault((name, members[name]), {})[rank.rank] = calls
    groups = []
    for (name, ranks), lists in found.items():
        if len(ranks) < 2:
            continue
        for number in ranks:
            if number not in left_out:
                lists.setdefault(number, [])
        first = max((one[0].sequence or 0 for one in lists.values() if one), default=0)
        begun = {r: [e for e in one if (e.sequence or 0) >= first] for r, one in lists.items()}
        groups.append(GroupCalls(name, ranks, dict(sorted(begun.items())), first))
    return groups


def disagreement(group: GroupCalls) -> Disagreement | None:
    """The first position where the ranks of a group disagree; None if they never do."""
    lists = group.calls
    if len(lists) < 2:
        return None
    for position in range(max(map(len, lists.values()))):
        called = {rank: calls[position] for rank, calls in lists.items() if position < len(calls)}
        lacking = tuple(rank for rank in lists if rank not in called)
        first = next(iter(called.values()))
        if not lacking and not any(differences(first, other) for other in called.values()):
            continue
        if not lacking and _only_keep_up(lists, position):
            return None
        if lacking:
            return _judged(group, position, called, lacking)
        parted = _parted(lists, position)
        return _judged(group, parted, {rank: calls[parted] for rank, calls in lists.items()}, ())
    return None


def _parted(lists: Mapping[int, Sequence[Event]], position: int) -> int:
    """The first position from which on ranks are in different phases, up to a mismatch.

    A rank that skips a unit's last call of forward makes its first call of backward instead, which
    looks the same.
    """
    while position and are_of_phases([calls[position - 1] for calls in lists.values()]):
        position -= 1
    return position


def _only_keep_up(lists: Mapping[int, Sequence[Event]], position: int) -> bool:
    """Whether ranks that have no more data make the calls of those that have, to the end (`join`).

    They have finished their last iteration, and all calls of all ranks match and have ended.
    """
    rest = [calls[position:] for calls in lists.values()]
    if len({len(calls) for calls in rest}) > 1 or not any(map(_is_after_all, rest)):
        return False
    return all(
        one.end_ns is not None and not one.error and is_alike(one, calls[0])
        for calls in zip(*rest, strict=True)
        for one in calls
    )


def _is_after_all(calls: Sequence[Event]) -> bool:
    return all(map(is_after_steps, calls))


def _judged(
    group: GroupCalls, position: int, called: dict[int, Event], lacking: tuple[int, ...]
) -> Disagreement:
    sides = _sides(called, by_phase=not lacking)
    right: list[int] | None = sides[0]
    if len(sides) > 1 and len(sides[0]) == len(sides[1]):
        even = [side for side in sides if len(side) == len(sides[0])]
        usual = [_is_usual(group, side[0], position) for side in even]
        if usual.count(True) > 1:  # each is the first of its phase: compare the calls before them
            usual = [_is_usual(group, side[0], position, in_phase=False) for side in even]
        right = None
        if usual.count(True) == 1:
            right = even[usual.index(True)]
        elif len(even) == 2 and usual.count(False) == 1:
            right = even[1 - usual.index(False)]
        else:
            right = _first_in_training(even, called)
    wrong = () if right is None else tuple(rank for rank in called if rank not in right)
    culprits = wrong if len(sides) > 1 else lacking
    expected = None if right is None else called[right[0]]
    if group.is_way and expected is not None and culprits:
        expected = _other_end(group, culprits[0], position, expected)
    return Disagreement(
        group=group,
        position=position,
        expected=expected,
        called=called,
        # the rank with a different call is the reason, not a rank waiting for it elsewhere
        culprits=culprits,
        lacking=lacking,
        reference=None if right is None else right[0],
    )


def _other_end(group: GroupCalls, rank: int, position: int, end: Event) -> Event:
    """The expected call of a rank for a message with a known other end."""
    before = group.calls[rank][:position]
    like = next((one for one in reversed(before) if is_alike(one, end)), None)
    return replace(
        end,
        rank=rank,
        op=Op.RECEIVE if end.op is Op.SEND else Op.SEND,
        peers=(end.rank,),
        unit=like.unit if like else "",
        source=like.source if like else "",
    )


def _first_in_training(sides: Sequence[list[int]], called: Mapping[int, Event]) -> list[int] | None:
    """The side that is in an earlier iteration: the others skipped calls of that iteration."""
    iterations = [called[side[0]].iteration for side in sides]
    first = min(iterations)
    return sides[iterations.index(first)] if iterations.count(first) == 1 else None


def _sides(called: Mapping[int, Event], *, by_phase: bool) -> list[list[int]]:
    """Groups of ranks that made the same call, the largest first.

    Args:
        by_phase: whether the phase must be the same as well.
    """
    sides: list[list[int]] = []
    for rank, event in called.items():
        same = (
            side
            for side in sides
            if not differences(one := called[side[0]], event)
            and not (by_phase and are_of_phases([one, event]))
        )
        side = next(same, None)
        if side is None:
            sides.append([rank])
        else:
            side.append(rank)
    return sorted(sides, key=len, reverse=True)


def _is_usual(group: GroupCalls, rank: int, position: int, *, in_phase: bool = True) -> bool | None:
    """Whether a rank called as in an earlier iteration; None without a similar earlier call.

    The earlier call followed the same call of its phase, or was the first in it.

    Args:
        in_phase: compare only calls of the same phase; otherwise those of any phase.
    """
    calls = group.calls[rank]
    event = calls[position]
    if event.iteration < 0:  # the program does not mark iterations
        earlier = _earlier(calls, position)
        return None if earlier is None else is_alike(calls[earlier], event)
    for place in range(position - 1, -1, -1):
        then = calls[place]
        if then.iteration < event.iteration and then.phase is event.phase and is_alike(then, event):
            before, now = (_before(calls, at, in_phase=in_phase) for at in (place, position))
            if before is None or now is None:
                return before is now
            return is_alike(before, now)
    return None


def _before(calls: Sequence[Event], position: int, *, in_phase: bool) -> Event | None:
    """The call before one, or before one in its phase; None if it is the first."""
    event = calls[position]
    before = calls[position - 1] if position else None
    if before is None or (in_phase and _phase_of(before) != _phase_of(event)):
        return None
    return before


def _phase_of(event: Event) -> tuple[int, int, Phase]:
    # a pipeline's messages have a micro-batch each
    micro_step = 0 if event.op in MESSAGES else event.micro_step
    return event.iteration, micro_step, event.phase


def _earlier(calls: Sequence[Event], position: int) -> int | None:
    """The last position at which the same calls had been made."""
    for length in range(min(_CONTEXT, position), 0, -1):
        context = calls[position - length : position]
        for place in range(position - 1, length - 1, -1):
            then = calls[place - length : place]
            if all(is_alike(a, b) for a, b in zip(then, context, strict=True)):
                return place
    return None


@dataclass(frozen=True, slots=True)
class Shift:
    """A rank's calls, aligned with those of the others.

    Attributes:
        left_out: number of calls of the other ranks that it lacks.
        more: number of its additional calls.
        is_swapped: whether it made two calls in reverse order.
    """

    left_out: int = 0
    more: int = 0
    is_swapped: bool = False
    repeats: bool = field(default=False)


def shift_of(found: Disagreement, culprit: int) -> Shift | None:
    """The shift of the culprit's calls from the correct ones; None if no shift explains them."""
    known = [] if found.reference is None else found.group.calls[found.reference]
    own = found.group.calls[culprit][found.position :]
    right = _foreseen(known, found.position)
    if not own or not right:
        return None
    if len(own) > 1 and len(right) > 1 and _same(own[0], right[1]) and _same(own[1], right[0]):
        return Shift(is_swapped=True)
    is_instead = own[0].op is not right[0].op and len(own) <= len(known) - found.position
    if is_instead and own[1:] and _fits(own[1:], right[1:]):
        return None  # the culprit made one call in place of another
    for moved in range(1, _MOST_MOVED):
        if moved < len(right) and _fits(own, right[moved:]):
            return Shift(left_out=moved)
        if moved < len(own) and _fits(own[moved:], right):
            before = found.group.calls[culprit][: found.position][-moved:]
            again = len(before) == moved and all(map(is_alike, before, own[:moved]))
            return Shift(more=moved, repeats=again)
    return _begun_again(found.group.calls[culprit][: found.position], own)


def _begun_again(before: Sequence[Event], own: Sequence[Event]) -> Shift | None:
    """Calls that are being repeated, with no further call yet; None if nothing is repeated."""
    for moved in range(len(own), min(_MOST_MOVED, len(before) + 1)):
        first = before[-moved:]
        pairs = zip(own, first, strict=False)
        is_same_step = all(one.micro_step == other.micro_step for one, other in pairs)
        if is_same_step and _fits(own, first):
            return Shift(more=moved, repeats=True)
    return None


def _same(one: Event, other: Event) -> bool:
    return not differences(one, other)


def _fits(one: Sequence[Event], other: Sequence[Event]) -> bool:
    """Whether two lists of calls begin equally; calls of a unit in forward and backward differ."""
    pairs = zip(one[:_CONTEXT], other[:_CONTEXT], strict=False)
    return all(_same(a, b) and a.phase is b.phase for a, b in pairs)


def _foreseen(calls: Sequence[Event], position: int) -> list[Event]:
    """A rank's calls from here on, and those that followed the same calls earlier."""
    made = list(calls[position:])
    if not made:
        return made
    place = _earlier(calls, len(calls))
    if place is None:
        return made
    by = calls[-1].iteration - calls[place - 1].iteration
    later = calls[place : place + _MOST_MOVED]
    return made + [replace(event, iteration=event.iteration + by) for event in later]


def is_after_steps(event: Event) -> bool:
    """Whether a call is outside of all optimizer steps: between two, or after the last one."""
    return event.phase in (Phase.OUTSIDE, Phase.SETUP)
