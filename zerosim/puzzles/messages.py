"""The messages between ranks: the contents of each, and the number of rounds.

In a round, every rank sends at most one message and receives at most one, both at the same time. A
received message can be forwarded in the next round.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from zerosim.puzzles.wording import words as say
from zerosim.record import RankTrace, Trace, match_collectives
from zerosim.schema.events import Event, Held, Kind, Op

_Key = tuple[int, int]
"""Rank and event."""
_PIECE = "piece "
PIECE = re.compile(r"piece (\d+) of ranks? ")
PART = re.compile(r"(piece \d+) of ranks (\d+(?:, \d+)*)")


@dataclass(frozen=True, slots=True)
class MatchedMessage:
    """One message; an end that never called is None."""

    send: Event | None
    receive: Event | None


def messages(trace: Trace) -> list[MatchedMessage]:
    """All messages outside of collectives, by time of issue."""
    found = []
    for matched in match_collectives(trace).collectives:
        if matched.key.is_message:
            ends = {event.op: event for event in matched.events.values()}
            found.append(MatchedMessage(ends.get(Op.SEND), ends.get(Op.RECEIVE)))
    return found


def calls_of(rank: RankTrace) -> Iterator[Event]:
    """The calls of a message, in order."""
    for _, event in rank.events.of_kind(Kind.COLLECTIVE):
        if event.op is not None:
            yield event


def never_waited(rank: RankTrace, op: Op = Op.RECEIVE) -> Event | None:
    """The first message that a rank receives or sends without a wait."""
    waited = {event.parent for event in rank.events if event.kind is Kind.WAIT}
    for event in calls_of(rank):
        if event.op is op and event.id not in waited:
            return event
    return None


def digests(trace: Trace) -> dict[_Key, str]:
    """The input of each call, as checksums, by rank and event."""
    return {
        (rank.rank, one.event): str(one.digest)
        for rank in trace.ranks
        for one in rank.checksums
        if one.held is Held.GIVEN and one.event is not None
    }


@dataclass(frozen=True, slots=True)
class Illegal:
    """A message with wrong contents: its send, its round from 1, the problem."""

    event: Event
    round: int
    words: str


def first_illegal(trace: Trace, contents: Mapping[str, str]) -> Illegal | None:
    """The first message, in rounds, that is not a partial result or omits received data.

    Args:
        contents: the allowed contents of a message, by checksum; sums of a piece use the words of
            `PART`.
    """
    depths, sums = rounds(trace), digests(trace)
    held = {
        key: contents.get(digest, "") for key, digest in sums.items() if key in depths
    }  # fmt: skip
    origin_of = origins(trace)
    found = []
    for rank in trace.ranks:
        events = {event.id: event for event in calls_of(rank)}
        received: dict[str, set[str]] = defaultdict(set)
        for is_send, number in _steps(rank):
            key = (rank.rank, number) if is_send else origin_of.get((rank.rank, number), (-1, -1))
            words = held.get(key, "")
            part = PART.fullmatch(words)
            members = set() if part is None else set(part[2].split(", "))
            name = "" if part is None else part[1]
            if not is_send:
                received[name] |= members
                continue
            wrong = "" if words else say("contents.unknown")
            lost = received[name] - members
            if lost and part is not None:
                said = say("contents.part", piece=name.removeprefix(_PIECE), ranks=part[2])
                wrong = say("contents.lost", part=said, ranks=_names(lost))
            if wrong:
                found.append(Illegal(events[number], depths.get(key, 0), wrong))
    return min(found, key=lambda one: (one.round, one.event.rank), default=None)


def _names(ranks: set[str]) -> str:
    return ", ".join(sorted(ranks))


def rounds(trace: Trace) -> dict[_Key, int]:
    """The round of each send, from 1, by rank and event."""
    partner = origins(trace)
    todo = {rank.rank: list(_steps(rank)) for rank in trace.ranks}
    sent: dict[_Key, int] = {}
    known: dict[int, int] = defaultdict(int)
    last_sent: dict[int, int] = defaultdict(int)
    last_got: dict[int, int] = defaultdict(int)
    moves = True
    while moves:
        moves = False
        for rank, steps in todo.items():
            while steps:
                is_send, event = steps[0]
                if is_send:
                    last_sent[rank] = max(known[rank], last_sent[rank]) + 1
                    sent[rank, event] = last_sent[rank]
                else:
                    origin = partner.get((rank, event))
                    if origin is None or origin not in sent:
                        break
                    last_got[rank] = max(last_got[rank] + 1, sent[origin])
                    known[rank] = max(known[rank], last_got[rank])
                steps.pop(0)
                moves = True
    return sent


def origins(trace: Trace) -> dict[_Key, _Key]:
    """The send of each receive."""
    return {
        (one.receive.rank, one.receive.id): (one.send.rank, one.send.id)
        for one in messages(trace)
        if one.send is not None and one.receive is not None
    }


def _steps(rank: RankTrace) -> Iterator[tuple[bool, int]]:
    """Sends at their issue, receives at their wait."""
    receives = {event.id for event in calls_of(rank) if event.op is Op.RECEIVE}
    for event in rank.events:
        if event.kind is Kind.COLLECTIVE and event.op is Op.SEND:
            yield True, event.id
        elif event.kind is Kind.WAIT and event.parent in receives:
            yield False, event.parent


def overlapping(rank: RankTrace, iteration: int) -> int:
    """Number of an iteration's calls that overlap a computation of the rank.

    A call lasts until the rank waits for it, even if it ended before.
    """
    awaited = {one.event: one.time_ns for one in rank.checksums if one.held is Held.RESULT}
    begins = [
        event.start_ns or 0
        for _, event in rank.events.of_kind(Kind.COMPUTE)
        if event.iteration == iteration
    ]
    return sum(
        any(event.issue_ns < begin < awaited.get(event.id, 0) for begin in begins)
        for event in calls_of(rank)
        if event.iteration == iteration
    )
