"""Checks of a program's calls, of its messages, and of its results."""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.base.language import term
from zerosim.puzzles.evidence import RunEvidence
from zerosim.puzzles.messages import PART, PIECE, digests, first_illegal, origins, rounds
from zerosim.puzzles.verdict import FailedCheck, call_words, reason_at
from zerosim.puzzles.wording import words
from zerosim.record.judged import CarriedPiece, Judged
from zerosim.schema.events import Op


def calls(seen: RunEvidence) -> Iterator[FailedCheck]:
    """It makes only calls that the task allows."""
    allowed = seen.promise.calls
    for event in seen.events() if allowed else ():
        if str(event.op) not in allowed:
            names = words("calls.and").join(map(term, allowed))
            called = call_words(event, is_placed=False)
            yield reason_at(
                "calls",
                words("calls.not_allowed", rank=event.rank, call=call_words(event), names=names),
                event,
                called,
                names,
            )


def told(seen: RunEvidence) -> Judged:
    """The contents of each message; empty if unknown for any message of the run."""
    trace = seen.trace
    if trace is None or not seen.promise.contents or not seen.is_over or seen.failed:
        return Judged()
    depths, sums, received = rounds(trace), digests(trace), set(origins(trace).values())
    known = _known(seen)
    calls = [event for event in seen.events() if seen.counts(event)]
    sends = [(event.rank, event.id) for event in calls if event.op is Op.SEND]
    pieces = [int(one[1]) for one in map(PIECE.match, known.values()) if one is not None]
    is_all = len(sends) * 2 == len(calls) and all(
        one in depths and one in received for one in sends
    )
    if not is_all or {event.rank for event in calls} != set(range(seen.puzzle.ranks)) or not pieces:
        return Judged()
    messages = []
    for rank, event in sends:
        name = known.get(sums.get((rank, event), ""), "")
        piece, part = PIECE.match(name), PART.fullmatch(name)
        messages.append(
            CarriedPiece(
                rank=rank,
                event=event,
                round=depths[rank, event],
                piece=-1 if piece is None else int(piece[1]),
                summed=() if part is None else tuple(map(int, part[2].split(", "))),
            )
        )
    return Judged(messages=tuple(messages), num_pieces=1 + max(pieces))


def _known(seen: RunEvidence) -> dict[str, str]:
    return {crc: name for said in seen.ran.said if said for crc, name in said.contents.items()}


def contents(seen: RunEvidence) -> Iterator[FailedCheck]:
    """Each message has the correct contents."""
    if not seen.promise.contents or seen.trace is None:
        return
    found = first_illegal(seen.trace, _known(seen))
    if found is not None:
        event = found.event
        yield reason_at(
            "contents",
            words(
                "contents.illegal",
                round=found.round,
                rank=event.rank,
                peer=event.peers[0],
                what=found.words,
            ),
            event,
            found.words,
            words("contents.expected"),
        )


def values(seen: RunEvidence) -> Iterator[FailedCheck]:
    """The results are right."""
    for rank, said in enumerate(seen.ran.said):
        if said is not None and said.difference:
            yield FailedCheck(
                check="values",
                sentence=words("values.on_rank", rank=rank, what=said.difference),
                event=seen.last_of(rank),
                found=said.found,
                expected=said.expected,
            )
