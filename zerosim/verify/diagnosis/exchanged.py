"""Inputs and outputs of calls, and messages at both ends."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from zerosim.record import RankTrace, Trace, match_collectives
from zerosim.schema.events import Checksum, Event, Held, Kind, Op, Purpose
from zerosim.verify.diagnosis import wording
from zerosim.verify.diagnosis.compared import Key, PlacedFinding, at_call, by_event, minority
from zerosim.verify.diagnosis.evidence import advice
from zerosim.verify.diagnosis.findings import Finding, Place, Wrong

_SAME_RESULT = frozenset({Op.ALL_REDUCE, Op.ALL_GATHER, Op.BROADCAST})
_FAR_LARGER = 1e4


def of_calls(trace: Trace) -> Iterator[PlacedFinding]:
    """Values that are not finite, far too large or all zero, and results that differ."""
    given = by_event(trace, Held.GIVEN)
    results = by_event(trace, Held.RESULT)
    matching = match_collectives(trace)
    usual: dict[tuple[int, str, Op], float] = {}
    zeros: dict[tuple[int, int, int], list[tuple[Event, bool]]] = defaultdict(list)
    for number, matched in enumerate(matching.collectives):
        events = matched.events
        if matched.key.is_message:
            continue
        at = at_call(next(iter(events.values())), number)
        sums = {r: s for r, e in events.items() if (s := given.get((r, e.id))) is not None}
        largest = {r: s.largest for r, s in sums.items() if s.largest is not None}
        wrong = [r for r, value in largest.items() if not math.isfinite(value)]
        if wrong:
            yield PlacedFinding(at, _not_finite(events, largest, wrong))
            continue
        yield from _too_large(events, largest, usual, at)
        for rank, value in largest.items():
            event = events[rank]
            usual[rank, event.unit, matched.op] = value
            if event.purpose is Purpose.REDUCE_GRADIENTS:
                key = (rank, event.iteration, event.micro_step)
                zeros[key].append((event, value == 0))
        if matched.op in _SAME_RESULT and len(matched.key.ranks) == len(events):
            crcs = {r: s.digest for r, e in events.items() if (s := results.get((r, e.id)))}
            if len(crcs) == len(events) and len(set(crcs.values())) > 1:
                yield PlacedFinding((*at[:2], 1, number), _different_result(events, crcs))
    yield from _zeros(zeros)


def _not_finite(
    events: Mapping[int, Event], largest: Mapping[int, float], wrong: Sequence[int]
) -> Finding:
    event = events[wrong[0]]
    others = [rank for rank in largest if rank not in wrong]
    rest = max((largest[rank] for rank in others), default=0.0)
    return Finding(
        wrong=Wrong.NOT_FINITE,
        ranks=tuple(wrong),
        place=Place.of(event),
        sentence=wording.said(
            "values.not_finite_beside" if others else "values.not_finite",
            ranks=wording.ranks(wrong),
            call=wording.call(event),
            value=largest[wrong[0]],
            others=wording.ranks(others),
            rest=f"{rest:.3g}",
            source=wording.line(event),
        ),
        advice=advice("batch" if others else "rate"),
    )


def _too_large(
    events: Mapping[int, Event],
    largest: Mapping[int, float],
    usual: Mapping[tuple[int, str, Op], float],
    at: Key,
) -> Iterator[PlacedFinding]:
    for rank, value in largest.items():
        event = events[rank]
        assert event.op is not None
        others = max((v for r, v in largest.items() if r != rank), default=0.0)
        before = usual.get((rank, event.unit, event.op), 0.0)
        expected = max(others, before)
        if expected and value > _FAR_LARGER * expected:
            yield PlacedFinding(
                at,
                Finding(
                    wrong=Wrong.TOO_LARGE,
                    ranks=(rank,),
                    place=Place.of(event),
                    sentence=wording.said(
                        "values.too_large",
                        rank=rank,
                        call=wording.call(event),
                        value=f"{value:.3g}",
                        others=f"{others:.3g}",
                        before=f"{before:.3g}",
                        source=wording.line(event),
                    ),
                    advice=advice("flipped"),
                ),
            )


def _zeros(
    zeros: Mapping[tuple[int, int, int], list[tuple[Event, bool]]],
) -> Iterator[PlacedFinding]:
    """A rank with zero gradients where those of others are not zero."""
    for (rank, iteration, micro_step), own in zeros.items():
        others = [
            one
            for (other, i, m), calls in zeros.items()
            if other != rank and (i, m) == (iteration, micro_step)
            for one in calls
        ]
        if all(is_zero for _, is_zero in own) and others and not any(z for _, z in others):
            event = own[0][0]
            yield PlacedFinding(
                at_call(event, 0),
                Finding(
                    wrong=Wrong.LEFT_OUT,
                    ranks=(rank,),
                    place=Place.of(event),
                    sentence=wording.said(
                        "values.zeros",
                        rank=rank,
                        iteration=iteration,
                        call=wording.call(event),
                        at=wording.at(event.source),
                    ),
                    advice=advice("zeros"),
                ),
            )


def _different_result(events: Mapping[int, Event], crcs: Mapping[int, int]) -> Finding:
    wrong, is_known = minority(crcs)
    event = events[wrong[0]]
    sentence = wording.said(
        "values.result" if is_known else "values.results",
        ranks=wording.ranks(wrong),
        call=wording.call(event),
        source=wording.line(event),
    )
    return Finding(
        wrong=Wrong.DIFFERS,
        ranks=wrong,
        place=Place.of(event),
        sentence=sentence,
        evidence=wording.checksums(crcs),
        advice=advice("result"),
    )


def of_messages(trace: Trace) -> Iterator[PlacedFinding]:
    """Messages of a ring that differ between sender and receiver."""
    given, results = by_event(trace, Held.GIVEN), by_event(trace, Held.RESULT)
    sent: dict[tuple[object, ...], list[tuple[Event, Event, Checksum]]] = defaultdict(list)
    received: dict[tuple[object, ...], list[tuple[Event, Event, Checksum]]] = defaultdict(list)
    for rank in trace.ranks:
        for event, call in _transfers(rank):
            book, sums = (sent, given) if event.op is Op.SEND else (received, results)
            one = sums.get((rank.rank, event.id))
            if one is not None:
                ends = (rank.rank, event.peers[0])
                way = ends if event.op is Op.SEND else ends[::-1]
                book[(call.group, call.sequence, event.hop, *way)].append((event, call, one))
    for key, ours in sent.items():
        theirs = received.get(key, [])
        for (event, call, mine), (_, _, other) in zip(ours, theirs, strict=False):
            if mine.digest == other.digest or len(ours) != len(theirs):
                continue
            source, target = event.rank, event.peers[0]
            yield PlacedFinding(
                at_call(call, -1),
                Finding(
                    wrong=Wrong.ON_THE_WAY,
                    ranks=(source, target),
                    place=Place.of(call),
                    sentence=wording.said(
                        "values.on_the_way",
                        source=source,
                        target=target,
                        hop=event.hop,
                        call=wording.call(call),
                        bytes=f"{event.payload_bytes:,}",
                        line=wording.line(call),
                    ),
                    evidence=(
                        wording.said("values.sent", rank=source, checksum=f"{mine.digest:08x}"),
                        wording.said(
                            "values.received", rank=target, checksum=f"{other.digest:08x}"
                        ),
                    ),
                    advice=advice("link", source=source, target=target),
                ),
            )


def _transfers(rank: RankTrace) -> Iterator[tuple[Event, Event]]:
    """Messages with their calls, in the order of posting."""
    for _, event in rank.events.of_kind(Kind.TRANSFER):
        call = None if event.parent is None else rank.events.find(event.parent)
        if call is not None:
            yield event, call
