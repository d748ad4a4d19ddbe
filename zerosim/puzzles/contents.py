"""Whether a program's calls are allowed, its messages are those expected, its results right."""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.base.language import term
from zerosim.puzzles.evidence import RunEvidence
from zerosim.puzzles.messages import first_illegal
from zerosim.puzzles.verdict import FailedCheck, call_words, reason_at
from zerosim.puzzles.wording import words


def calls(seen: RunEvidence) -> Iterator[FailedCheck]:
    """It calls only what the task allows."""
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


def contents(seen: RunEvidence) -> Iterator[FailedCheck]:
    """Each message holds what it should."""
    if not seen.promise.contents or seen.trace is None:
        return
    known = {crc: name for said in seen.ran.said if said for crc, name in said.contents.items()}
    found = first_illegal(seen.trace, known)
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
