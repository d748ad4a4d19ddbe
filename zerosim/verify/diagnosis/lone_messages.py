"""Messages between two ranks outside of collectives, compared like the calls of a group of two.

The n-th send from a to b is the n-th that b receives from a. Messages of a pipeline have labels:
purpose, iteration and micro-batch are equal at both ends. For others, only size and dtype are
compared: send and receive may belong to different iterations.
"""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.record import Trace
from zerosim.record.alike import alike_ranks
from zerosim.schema.events import OF_MICRO_BATCHES, Event, Kind, Op
from zerosim.schema.manifest import Source
from zerosim.verify.diagnosis import wording
from zerosim.verify.diagnosis.calls import Disagreement, GroupCalls, disagreement
from zerosim.verify.diagnosis.differing import MESSAGES, differences, is_alike
from zerosim.verify.diagnosis.evidence import ObservedRun, advice, called_by, common, sides, waits
from zerosim.verify.diagnosis.findings import Finding, Place, Wrong

Way = tuple[str, int, int]
"""Group, source and destination."""


def ways_of(trace: Trace) -> list[GroupCalls]:
    """Every path of messages, with the calls of its two ranks.

    Ranks that received from any rank are left out, because the sender is known only after the wait.
    So are imported traces, which may lack the first messages.
    """
    if trace.manifest.source is Source.IMPORTED:
        return []
    left_out = alike_ranks(trace.manifest) | set(trace.lacks)
    found: dict[Way, dict[int, list[Event]]] = {}
    blurred: set[tuple[str, int]] = set()
    for rank in trace.ranks:
        for _, event in rank.events.of_kind(Kind.COLLECTIVE):
            if event.parent is not None or event.op not in MESSAGES:
                continue
            if len(event.peers) != 1:
                blurred.add((event.group, rank.rank))
                continue
            ends = (rank.rank, event.peers[0])
            source, target = ends if event.op is Op.SEND else ends[::-1]
            calls = found.setdefault((event.group, source, target), {})
            calls.setdefault(rank.rank, []).append(event)
    return [
        _way(name, (source, target), calls)
        for (name, source, target), calls in found.items()
        if source != target
        and (name, target) not in blurred
        and not left_out.intersection((source, target))
    ]


def _way(name: str, ends: tuple[int, int], calls: dict[int, list[Event]]) -> GroupCalls:
    """The calls of both ends; for a pipeline, from the first iteration on that both have.

    Recording may begin in the middle of an iteration.
    """
    begins = [one[0] for one in calls.values()]
    is_pipeline = all(event.purpose in OF_MICRO_BATCHES for event in begins)
    first = max(event.iteration for event in begins) if is_pipeline else -1
    begun = {
        rank: [event for event in calls.get(rank, []) if event.iteration >= first] for rank in ends
    }
    return GroupCalls(name, ends, begun, is_way=True)


def with_other_peer(run: ObservedRun, found: Disagreement) -> Finding | None:
    """A message that a rank sent to, or expected from, the wrong rank."""
    if not found.group.is_way:
        return None
    for suspect in found.culprits or found.group.ranks:
        for made, wanted in _exchanged(run, found, suspect):
            return Finding(
                wrong=Wrong.PEER,
                ranks=(suspect,),
                place=Place.of(made),
                sentence=wording.joined(
                    [
                        wording.said(
                            "calls.peer",
                            rank=suspect,
                            call=wording.call(made),
                            source=wording.line(made),
                            other=wanted.rank,
                            wanted=wording.call(wanted),
                        ),
                        waits(run, found),
                        common(found),
                    ]
                ),
                evidence=tuple(sides(found)),
                advice=advice(Wrong.PEER),
            )
    return None


def passed_by(run: ObservedRun, found: Disagreement) -> Finding | None:
    """A message that a rank skipped: it already waits in a call that earlier iterations made later.

    The culprit and its peer then wait for each other, and the other ranks wait in the expected
    calls.
    """
    expected = found.expected
    if not found.group.is_way or expected is None:
        return None
    for rank in found.lacking:
        inside = run.states[rank].open_calls[:1] if rank in run.states else []
        left = _made_before(found.group, rank, expected)
        waits_in = [
            then
            for group in run.groups
            for event in inside
            if rank in group.calls and event.id in {one.id for one in group.calls[rank]}
            if (then := _made_before(group, rank, event)) is not None
        ]
        if left is None or not waits_in or waits_in[0].issue_ns < left.issue_ns:
            continue
        return Finding(
            wrong=Wrong.LEFT_OUT,
            ranks=(rank,),
            place=Place.of(expected),
            sentence=wording.joined(
                [
                    wording.said(
                        "calls.left_out",
                        who=wording.ranks([rank]),
                        expected=wording.call(expected),
                        by=called_by(found, expected),
                        call=wording.call(inside[0]),
                        at=wording.at(inside[0].source),
                    ),
                    waits(run, found),
                    common(found),
                ]
            ),
            evidence=tuple(sides(found)),
            advice=advice(Wrong.LEFT_OUT),
        )
    return None


def _made_before(group: GroupCalls, rank: int, call: Event) -> Event | None:
    """The last call like this one that a rank made in an earlier iteration, and that ended."""
    earlier = (
        one
        for one in reversed(group.calls[rank])
        if one.id != call.id and one.end_ns is not None and is_alike(one, call)
    )
    return next(earlier, None)


def _exchanged(
    run: ObservedRun, found: Disagreement, suspect: int
) -> Iterator[tuple[Event, Event]]:
    """A rank's message to a wrong rank, and the other end that is missing."""
    end = found.group.ranks.index(suspect)
    for group in run.groups:
        if group is found.group or not group.is_way or group.ranks[end] != suspect:
            continue
        other = disagreement(group)
        if other is None:
            continue
        for one, another in ((other, found), (found, other)):
            made = one.called.get(suspect)
            wanted = another.called.get(another.group.ranks[1 - end])
            if made is None or wanted is None or differences(made, wanted):
                continue
            before = one.group.calls[suspect][: one.position]
            if not any(is_alike(made, event) for event in before):
                yield made, wanted
