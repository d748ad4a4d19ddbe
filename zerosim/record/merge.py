"""Matching of calls of several ranks into collectives, and contradictions between ranks.

Calls match by position, as they do in PyTorch: the n-th collective of a group on one rank is the
n-th on every other, and the n-th message from a to b is the n-th that b receives from a. Mismatches
are returned as data, because the trace of a broken run is the one to inspect.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from zerosim.record.alike import alike_ranks
from zerosim.record.anysource import FromAny, Messages, settle
from zerosim.record.collector import collector_paused
from zerosim.record.rankfile import RankTrace
from zerosim.record.store import Trace
from zerosim.record.text import name_ranks, one_line
from zerosim.schema.events import Event, Kind, Op


class MismatchKind(StrEnum):
    """The kinds of mismatch."""

    STOPPED = "stopped"
    """Ranks that failed, or whose trace stops early, lack the call."""
    MISSING = "missing"
    """Ranks with a complete trace never made the call."""
    OP = "op"
    """Ranks called different operations at the same position."""
    DTYPE = "dtype"
    PAYLOAD = "payload"
    DUPLICATE = "duplicate"
    """A rank made two calls at the same position."""
    UNKNOWN = "unknown"
    """A call that cannot be placed: no group, no sequence number, no peer, no sender."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """Calls of several ranks that should match and do not.

    Attributes:
        message: one line that names ranks, units and source lines.
        ranks: the ranks concerned.
        key: the collective concerned; None if the call has no position.
    """

    kind: MismatchKind
    message: str
    ranks: tuple[int, ...]
    key: CollectiveKey | None


class CollectiveKey(NamedTuple):
    """The identity of a collective in a trace.

    Attributes:
        ranks: the group's ranks, ascending; for a message, source and destination.
        group: the group's name.
        sequence: position in the group; for a message, position among those from source to
            destination in this group.
        is_message: True for a send with its receive.
    """

    ranks: tuple[int, ...]
    group: str
    sequence: int
    is_message: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedCollective:
    """One collective with the calls of all its ranks, or a message outside of collectives.

    Attributes:
        op: the operation on the first of its ranks; `Op.SEND` for a message.
        events: events by rank; for a message, the send by its source, the receive by its
            destination.
        num_alike: number of ranks without a file that one of these represents.
    """

    key: CollectiveKey
    op: Op
    events: dict[int, Event]
    num_alike: int = 0

    @property
    def complete(self) -> bool:
        """True if every rank of the group made the call."""
        return len(self.events) + self.num_alike == len(self.key.ranks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """All collectives of a trace, and the mismatches.

    Attributes:
        from_any: messages with an unknown sender; they are in no collective.
    """

    collectives: tuple[MatchedCollective, ...]
    mismatches: tuple[Mismatch, ...]
    from_any: tuple[FromAny, ...] = ()


def match_collectives(trace: Trace) -> Matching:
    """Match the calls that form a collective.

    Calls within a collective (the hops of a ring) belong to it and are not matched here. The time
    is linear in the number of events.

    Returns:
        The collectives in the order in which the lowest of their ranks called them, then the
        messages; and the mismatches.
    """
    with collector_paused():
        return _match(trace)


def _match(trace: Trace) -> Matching:
    mismatches: list[Mismatch] = []
    complete = {rank.rank for rank in trace.ranks if rank.complete and rank.failure is None}
    alike = alike_ranks(trace.manifest)
    calls = _collectives(trace, mismatches)
    sends, receives, from_any = _messages(trace, mismatches)
    calls.update(_pair(sends, receives))
    is_whole = len(complete) == trace.manifest.num_ranks
    mismatches += [_unsent(one, is_whole=is_whole) for one in from_any if not one.fits]
    collectives = []
    without_file = alike | set(trace.lacks)
    for key, events in calls.items():
        op = Op.SEND if key.is_message else _first(events).op
        assert op is not None
        stood_for = len(alike.intersection(key.ranks)) if alike else 0
        collectives.append(MatchedCollective(key=key, op=op, events=events, num_alike=stood_for))
        absent = [rank for rank in key.ranks if rank not in events and rank not in without_file]
        mismatches.extend(_check(key, events, absent, complete))
    return Matching(collectives=tuple(collectives), mismatches=tuple(mismatches), from_any=from_any)


def _calls(rank: RankTrace) -> Iterator[Event]:
    """The calls that are not part of another one."""
    return (e for _, e in rank.events.of_kind(Kind.COLLECTIVE) if e.parent is None)


def _collectives(trace: Trace, mismatches: list[Mismatch]) -> dict[CollectiveKey, dict[int, Event]]:
    """The calls of whole groups by key and rank; those without a position become mismatches."""
    calls: dict[CollectiveKey, dict[int, Event]] = {}
    for rank in trace.ranks:
        members = {name: tuple(sorted(set(group.ranks))) for name, group in rank.groups.items()}
        for event in _calls(rank):
            if event.op in _MESSAGE_OPS:
                continue
            ranks = members.get(event.group, ())
            if rank.rank not in ranks or event.sequence is None or event.op is None:
                mismatches.append(_unknown(event, _why_unknown(event, ranks)))
                continue
            key = CollectiveKey(ranks, event.group, event.sequence)
            events = calls.setdefault(key, {})
            if rank.rank in events:
                mismatches.append(_duplicate(key, events[rank.rank], event))
            else:
                events[rank.rank] = event
    return calls


_MESSAGE_OPS = (Op.SEND, Op.RECEIVE)


def _messages(
    trace: Trace, mismatches: list[Mismatch]
) -> tuple[Messages, Messages, tuple[FromAny, ...]]:
    """The sends, the receives, the ambiguous ones; an invalid peer is a mismatch."""
    sends: Messages = {}
    receives: Messages = {}
    unsaid: dict[tuple[int, str], list[Event]] = {}
    for rank in trace.ranks:
        for event in _calls(rank):
            if event.op not in _MESSAGE_OPS:
                continue
            if _is_from_any(event):
                unsaid.setdefault((rank.rank, event.group), []).append(event)
            elif len(event.peers) != 1 or event.peers[0] == rank.rank:
                mismatches.append(_unknown(event, "expected one peer, a different rank"))
            elif event.op is Op.SEND:
                sends.setdefault((rank.rank, event.peers[0], event.group), []).append(event)
            else:
                receives.setdefault((event.peers[0], rank.rank, event.group), []).append(event)
    return sends, receives, settle(sends, receives, unsaid)


def _is_from_any(event: Event) -> bool:
    return event.op is Op.RECEIVE and not event.peers


def _pair(sends: Messages, receives: Messages) -> Iterator[tuple[CollectiveKey, dict[int, Event]]]:
    for way in sends | receives:
        source, destination, group = way
        sent, received = sends.get(way, []), receives.get(way, [])
        for sequence in range(max(len(sent), len(received))):
            events: dict[int, Event] = {}
            if sequence < len(sent):
                events[source] = sent[sequence]
            if sequence < len(received):
                events[destination] = received[sequence]
            key = CollectiveKey((source, destination), group, sequence, is_message=True)
            yield key, events


def _first(events: dict[int, Event]) -> Event:
    return next(iter(events.values()))


def _check(
    key: CollectiveKey, events: dict[int, Event], absent: list[int], complete: set[int]
) -> Iterator[Mismatch]:
    """Mismatches within one collective."""
    if absent:
        for kind, why, ranks in (
            (MismatchKind.MISSING, "no such call", [r for r in absent if r in complete]),
            (MismatchKind.STOPPED, "stopped before it", [r for r in absent if r not in complete]),
        ):
            if ranks:
                yield _mismatch(kind, key, events, ranks, f"; {name_ranks(ranks)}: {why}")
    # without a recorded size, nothing more can be compared
    sized = [event for event in events.values() if not event.operator or event.op is Op.UNKNOWN]
    if len(sized) < 2:
        return
    first, *others = sized
    involved = sorted(events)
    if not key.is_message and any(event.op is not first.op for event in others):
        yield _mismatch(MismatchKind.OP, key, events, involved)
        return
    # a barrier has no payload, and in an all-to-all each rank may send a different amount
    if first.op is not Op.BARRIER and any(event.dtype != first.dtype for event in others):
        yield _mismatch(MismatchKind.DTYPE, key, events, involved)
    if first.op not in (Op.BARRIER, Op.ALL_TO_ALL) and any(
        event.payload_bytes != first.payload_bytes for event in others
    ):
        yield _mismatch(MismatchKind.PAYLOAD, key, events, involved)


def _mismatch(
    kind: MismatchKind,
    key: CollectiveKey,
    events: dict[int, Event],
    ranks: list[int],
    more: str = "",
) -> Mismatch:
    if key.is_message:
        place = f"message {key.sequence} from rank {key.ranks[0]} to rank {key.ranks[1]}"
    else:
        place = f"collective {key.sequence} of group {key.group!r}"
    message = one_line(f"{place}: {kind}: {_sides(events)}{more}")
    return Mismatch(kind=kind, message=message, ranks=tuple(ranks), key=key)


def _duplicate(key: CollectiveKey, first: Event, second: Event) -> Mismatch:
    message = (
        f"collective {key.sequence} of group {key.group!r}: rank {first.rank} called it twice: "
        f"{_describe(first)}; {_describe(second)}"
    )
    ranks = (first.rank,)
    return Mismatch(kind=MismatchKind.DUPLICATE, message=one_line(message), ranks=ranks, key=key)


def _unknown(event: Event, why: str) -> Mismatch:
    message = f"event {event.id} of rank {event.rank}: {why}: {_describe(event)}"
    return Mismatch(
        kind=MismatchKind.UNKNOWN, message=one_line(message), ranks=(event.rank,), key=None
    )


def _unsent(found: FromAny, *, is_whole: bool) -> Mismatch:
    """More was received from any rank than was sent, or less."""
    first, sent = found.receives[0], len(found.sends)
    by = name_ranks({event.rank for event in found.sends})
    why = f"{sent} sent by {by}, {len(found.receives)} received" if sent else "no rank sent it"
    message = f"event {first.id} of rank {first.rank}: {why}: {_describe(first)}"
    return Mismatch(
        kind=MismatchKind.UNKNOWN if is_whole else MismatchKind.STOPPED,
        message=one_line(message),
        ranks=tuple(sorted({event.rank for event in (*found.sends, *found.receives)})),
        key=None,
    )


def _why_unknown(event: Event, ranks: tuple[int, ...]) -> str:
    if event.op is None:
        return "a collective without an operation"
    if not ranks:
        return "its group is not recorded"
    if event.rank not in ranks:
        return f"its group {event.group!r} has only {name_ranks(ranks)}"
    return "no sequence number"


def _sides(events: dict[int, Event]) -> str:
    """The actions of the ranks, with equal ones grouped."""
    ranks: dict[str, list[int]] = {}
    for rank, event in events.items():
        ranks.setdefault(_describe(event), []).append(rank)
    return "; ".join(f"{name_ranks(those)}: {text}" for text, those in ranks.items())


def _describe(event: Event) -> str:
    unit = f" of {event.unit}" if event.unit else ""
    source = f" at {event.source}" if event.source else ""
    dtype = f" {event.dtype}" if event.dtype else ""
    source_rank = " from any rank" if _is_from_any(event) else ""
    return f"{event.op}{source_rank}{unit}, {event.payload_bytes} B{dtype}{source}"
