"""The cost of a program, compared with its puzzle's bounds.

Each check reports its score, then the first step beyond the bound. An empty formula sets no bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.analysis.traffic import total, traced_calls
from zerosim.base.language import term
from zerosim.puzzles import messages
from zerosim.puzzles.evidence import RunEvidence
from zerosim.puzzles.messages import calls_of, overlapping
from zerosim.puzzles.turns import longest_idle
from zerosim.puzzles.turns import turns as turns_of
from zerosim.puzzles.verdict import FailedCheck, Score, call_words, reason_at
from zerosim.puzzles.wording import words
from zerosim.schema.events import Event


def sent(seen: RunEvidence) -> Iterator[FailedCheck | Score]:
    """No rank sends more than the bound."""
    if seen.promise.sent:
        yield from _sent(seen, seen.promise.sent, is_crossing=False)


def crossing(seen: RunEvidence) -> Iterator[FailedCheck | Score]:
    """No rank sends more than the bound in calls of ranks that are on several nodes."""
    if seen.promise.crossing:
        yield from _sent(seen, seen.promise.crossing, is_crossing=True)


def _sent(seen: RunEvidence, formula: str, *, is_crossing: bool) -> Iterator[FailedCheck | Score]:
    most = seen.value_of(formula)
    check = "crossing" if is_crossing else "sent"
    sums = [0] * seen.puzzle.ranks
    beyond: dict[int, Event] = {}
    for call in traced_calls(seen.trace) if seen.trace is not None else ():
        if not seen.counts(call.event) or (is_crossing and not seen.crosses(call.event)):
            continue
        sums[call.rank] += total([call]).sent_bytes or 0
        if sums[call.rank] > most:
            beyond.setdefault(call.rank, call.event)
    yield Score(check=check, found=max(sums), bound=most)
    for rank, event in beyond.items():
        yield reason_at(
            check,
            words(
                f"bounds.{check}",
                rank=rank,
                found=f"{sums[rank]:,}",
                bound=f"{most:,}",
                call=call_words(event),
            ),
            event,
        )


def rounds(seen: RunEvidence) -> Iterator[FailedCheck | Score]:
    """The number of consecutive rounds of messages is within the bound."""
    if not seen.promise.rounds or seen.trace is None:
        return
    most = seen.value_of(seen.promise.rounds)
    depths = messages.rounds(seen.trace)
    found = max(depths.values(), default=0)
    yield Score(check="rounds", found=found, bound=most)
    if found > most:
        beyond = [
            event for event in seen.events()
            if depths.get((event.rank, event.id), 0) > most
        ]  # fmt: skip
        yield reason_at(
            "rounds",
            words("bounds.rounds", found=found, bound=most, rank=beyond[0].rank, next=most + 1),
            beyond[0],
        )


def num_calls(seen: RunEvidence) -> Iterator[FailedCheck | Score]:
    """No rank makes more calls than the bound."""
    if not seen.promise.num_calls or seen.trace is None:
        return
    most = seen.value_of(seen.promise.num_calls)
    found = {
        rank.rank: [one for one in calls_of(rank) if seen.counts(one)] for rank in seen.trace.ranks
    }
    rank = max(found, key=lambda one: len(found[one]))
    yield Score(check="num_calls", found=len(found[rank]), bound=most)
    if len(found[rank]) > most:
        yield reason_at(
            "num_calls",
            words(
                "bounds.num_calls",
                rank=rank,
                found=len(found[rank]),
                bound=most,
                call=call_words(found[rank][most]),
            ),
            found[rank][most],
        )


def held(seen: RunEvidence) -> Iterator[FailedCheck | Score]:
    """No rank keeps more than its bound when it calls a collective."""
    if not seen.promise.held or seen.trace is None:
        return
    mosts = [seen.value_of(seen.promise.held, rank) for rank in range(seen.puzzle.ranks)]
    found = [
        (num_bytes, event)
        for said, rank in zip(seen.ran.said, seen.trace.ranks, strict=True)
        if said is not None
        for num_bytes, event in zip(said.held_bytes, calls_of(rank), strict=True)
        if seen.counts(event)
    ]
    nearest = max(found, key=lambda one: one[0] - mosts[one[1].rank], default=None)
    if nearest is not None:
        yield Score(check="held", found=nearest[0], bound=mosts[nearest[1].rank])
    for num_bytes, event in found:
        if num_bytes > mosts[event.rank]:
            yield reason_at(
                "held",
                words(
                    "bounds.held",
                    rank=event.rank,
                    found=f"{num_bytes:,}",
                    bound=f"{mosts[event.rank]:,}",
                    call=call_words(event),
                ),
                event,
            )


def turns(seen: RunEvidence) -> Iterator[FailedCheck | Score]:
    """The number of turns of dependent computations is within the bound."""
    if not seen.promise.turns or seen.trace is None:
        return
    most = seen.value_of(seen.promise.turns)
    taken = turns_of(seen.trace, seen.puzzle.iteration)
    found = max((one.number for one in taken), default=0)
    yield Score(check="turns", found=found, bound=most)
    idle = longest_idle(taken)
    if found > most and idle is not None:
        event = idle.event
        yield reason_at(
            "turns",
            words(
                "bounds.turns",
                found=found,
                bound=most,
                rank=event.rank,
                idle=idle.idle,
                phase=term(event.phase),
                micro=event.micro_step,
            ),
            event,
        )


def overlap(seen: RunEvidence) -> Iterator[FailedCheck | Score]:
    """At least the promised number of calls are in progress while the rank computes."""
    if not seen.promise.overlap or seen.trace is None:
        return
    least = seen.value_of(seen.promise.overlap)
    counts = {one.rank: overlapping(one, seen.puzzle.iteration) for one in seen.trace.ranks}
    rank = min(counts, key=lambda one: counts[one])
    found = counts[rank]
    yield Score(check="overlap", found=found, bound=least)
    if found < least:
        yield FailedCheck(
            check="overlap",
            sentence=words("bounds.overlap", rank=rank, found=found, bound=least),
            event=seen.last_of(rank),
        )
