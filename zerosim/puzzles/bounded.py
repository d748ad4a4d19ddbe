"""What a program takes, held against the bounds that its puzzle has.

Each of these says its score, then the first step that goes beyond the bound. A formula that a
puzzle leaves empty bounds nothing. Imports analysis, record and its siblings.
"""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.analysis.traffic import total, traced_calls
from zerosim.puzzles import messages
from zerosim.puzzles.evidence import Evidence
from zerosim.puzzles.messages import calls_of, overlapping
from zerosim.puzzles.verdict import Reason, Score, call_words, reason_at


def sent(seen: Evidence) -> Iterator[Reason | Score]:
    """No rank sends more than the bound."""
    if not seen.promise.sent or seen.trace is None:
        return
    most = seen.value_of(seen.promise.sent)
    calls = [
        call for call in traced_calls(seen.trace)
        if seen.counts(call.event)
    ]  # fmt: skip
    first: Reason | None = None
    largest = 0
    for rank in range(seen.puzzle.ranks):
        sum_bytes, crossing = 0, None
        for call in calls:
            if call.rank == rank:
                sum_bytes += total([call]).sent_bytes or 0
                if sum_bytes > most and crossing is None:
                    crossing = call.event
        largest = max(largest, sum_bytes)
        if crossing is not None and first is None:
            first = reason_at(
                "sent",
                f"rank {rank} sends {sum_bytes:,} bytes, the bound is {most:,}: "
                f"{call_words(crossing)} goes beyond it",
                crossing,
            )
    yield Score(what="bytes sent", found=largest, bound=most)
    if first is not None:
        yield first


def rounds(seen: Evidence) -> Iterator[Reason | Score]:
    """Messages follow one another no oftener than the bound."""
    if not seen.promise.rounds or seen.trace is None:
        return
    most = seen.value_of(seen.promise.rounds)
    depths = messages.rounds(seen.trace)
    found = max(depths.values(), default=0)
    yield Score(what="rounds", found=found, bound=most)
    if found > most:
        beyond = [
            event for event in seen.events()
            if depths.get((event.rank, event.id), 0) > most
        ]  # fmt: skip
        yield reason_at(
            "rounds", f"the messages take {found} rounds one after the other, {most} do: "
            f"rank {beyond[0].rank} sends in round {most + 1}", beyond[0],
        )  # fmt: skip


def num_calls(seen: Evidence) -> Iterator[Reason | Score]:
    """No rank makes more calls than the bound."""
    if not seen.promise.num_calls or seen.trace is None:
        return
    most = seen.value_of(seen.promise.num_calls)
    found = {
        rank.rank: [one for one in calls_of(rank) if seen.counts(one)] for rank in seen.trace.ranks
    }
    rank = max(found, key=lambda one: len(found[one]))
    yield Score(what="calls", found=len(found[rank]), bound=most)
    if len(found[rank]) > most:
        yield reason_at(
            "num_calls",
            f"rank {rank} makes {len(found[rank])} calls, {most} do: "
            f"{call_words(found[rank][most])} is one more",
            found[rank][most],
        )


def held(seen: Evidence) -> Iterator[Reason | Score]:
    """No rank holds more than the bound when it calls a collective."""
    if not seen.promise.held or seen.trace is None:
        return
    most = seen.value_of(seen.promise.held)
    found = [
        (num_bytes, event)
        for said, rank in zip(seen.ran.said, seen.trace.ranks, strict=True)
        if said is not None
        for num_bytes, event in zip(said.held_bytes, calls_of(rank), strict=True)
        if seen.counts(event)
    ]
    largest = max((num_bytes for num_bytes, _ in found), default=0)
    yield Score(what="bytes held", found=largest, bound=most)
    for num_bytes, event in found:
        if num_bytes > most:
            yield reason_at(
                "held",
                f"rank {event.rank} holds tensors of {num_bytes:,} bytes at {call_words(event)}, "
                f"the bound is {most:,}",
                event,
            )


def overlap(seen: Evidence) -> Iterator[Reason | Score]:
    """At least so many calls are under way while the rank computes."""
    if not seen.promise.overlap or seen.trace is None:
        return
    least = seen.value_of(seen.promise.overlap)
    counts = {one.rank: overlapping(one, seen.puzzle.iteration) for one in seen.trace.ranks}
    rank = min(counts, key=lambda one: counts[one])
    found = counts[rank]
    yield Score(what="calls beside computation", found=found, bound=least)
    if found < least:
        yield Reason(
            check="overlap",
            sentence=f"rank {rank} computes while {found} calls are under way, at least "
            f"{least} could be: it waits for the others before it computes on",
            event=seen.last_of(rank),
        )
