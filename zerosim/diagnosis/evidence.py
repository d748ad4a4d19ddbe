"""What findings rest on: who called what, who waits how long, what all did alike.

Imports zerosim's L0, record and its siblings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zerosim.diagnosis import words
from zerosim.diagnosis.calls import (
    Disagreement,
    GroupCalls,
)
from zerosim.diagnosis.differing import differences, is_alike
from zerosim.diagnosis.findings import Wrong
from zerosim.diagnosis.ranks import RankState
from zerosim.events import Event
from zerosim.record import Trace

PATIENCE_S = 3.0
"""Ranks that wait for another one for less are not said to hang: it may be on its way."""


@dataclass(frozen=True, slots=True)
class Run:
    """All that structure is found from.

    Attributes:
        until_ns: now, of a run that goes on; else when the last rank was seen.
    """

    trace: Trace
    states: Mapping[int, RankState]
    groups: Sequence[GroupCalls]
    until_ns: int
    patience_s: float = PATIENCE_S


def contradicts(found: Disagreement) -> bool:
    """Whether ranks called different things, which no waiting mends."""
    calls = list(found.called.values())
    return any(differences(calls[0], other) for other in calls[1:])


def since(found: Disagreement) -> int:
    """When the first rank made this call, on its clock."""
    return min((event.issue_ns for event in found.called.values()), default=2**63)


def next_of(rank: int, found: Sequence[Disagreement]) -> Disagreement | None:
    """What a rank would have called first of what it lacks; None if it lacks nothing.

    Of a group that is what the others called first. Messages wait on several ways at once: of these
    it is the one that came first in the rank's iterations before.
    """
    lacked = [one for one in found if rank in one.lacking and one.called]
    first = min(lacked, key=since, default=None)
    if first is None or not first.group.is_way:
        return first
    return min((one for one in lacked if one.group.is_way), key=lambda one: _turn(rank, one))


def _turn(rank: int, found: Disagreement) -> tuple[int, bool, int]:
    """When a rank would come to a message: as it did when it last made the same call."""
    end = next(iter(found.called.values()))
    before = found.group.calls[rank][: found.position]
    like = next((one for one in reversed(before) if is_alike(one, end)), None)
    return end.iteration, like is None, end.issue_ns if like is None else like.issue_ns


def sides(found: Disagreement) -> Iterator[str]:
    """Who called what, those that called alike together."""
    said: dict[str, list[int]] = {}
    for rank, event in found.called.items():
        text = f"{words.call(event, with_size=True)}{words.at(event.source)}"
        said.setdefault(text, []).append(rank)
    for text, those in said.items():
        yield f"{words.ranks(those)} called {text}"
    if found.lacking:
        yield f"{words.ranks(found.lacking)} {words.have(found.lacking)} not come to it"


def called_by(found: Disagreement, expected: Event, how: str = "") -> str:
    """Who called what was expected, or its other end: "which ranks 0 and 2 called from t.py:8".

    Args:
        how: words after "called".
    """
    if found.group.is_way and found.reference is not None:
        end = found.called[found.reference]
        line = words.at(end.source)
        return f"for which rank {end.rank} called {words.short_call(end)}{how}{line}"
    others = words.ranks(rank for rank in found.called if rank not in found.culprits)
    return f"which {others} called{how} from {expected.source or 'an unknown line'}"


def number(found: Disagreement) -> int:
    """The position of this call among those of its group."""
    return found.group.first + found.position


def waits(run: Run, found: Disagreement) -> str:
    """Who has waited how long."""
    those = waiting(run, found)
    if not those:
        return ""
    verb = words.have(those) if run.until_ns else "had"
    longest = max(run.until_ns - found.called[rank].issue_ns for rank in those)
    return f"{words.ranks(those)} {verb} waited {words.seconds(longest)}" if longest > 0 else ""


def waiting(run: Run, found: Disagreement) -> list[int]:
    """Those whose call is not over."""
    return [
        rank
        for rank, event in found.called.items()
        if rank in run.states
        and rank not in found.culprits
        and (event.end_ns is None or bool(event.error))
    ]


def waited_ns(run: Run, found: Disagreement) -> int:
    """How long those who called have waited."""
    times = []
    for rank in waiting(run, found):
        event = found.called[rank]
        times.append((event.end_ns or run.until_ns) - event.issue_ns)
    return max(times, default=0)


def common(found: Disagreement) -> str:
    """The last call that all made alike."""
    position = found.position - 1
    calls = [one[position] for one in found.group.calls.values() if 0 <= position < len(one)]
    if len(calls) < len(found.group.calls) or not calls:
        return "no call of this group was common to all ranks before it"
    return f"last common event: {words.call(calls[0])}"


ADVICE = {
    Wrong.LEFT_OUT: "look for a branch on the rank, on its data, or an early return before that "
    "line; all ranks of a group must make the same calls",
    Wrong.MORE: "look for a loop or a retry that runs once more on that rank",
    Wrong.ORDER: "ranks must call in one order: look for sets, dicts or threads that decide it",
    Wrong.OTHER_CALL: "look for a branch on the rank or on its data before that line",
    Wrong.SIZE: "see that all ranks have the same shapes: a last batch that is shorter, a layer "
    "that differs, padding that depends on data",
    Wrong.DTYPE: "see that all ranks cast alike: autocast, a checkpoint's dtype, an option of one "
    "rank",
    Wrong.GROUP: "see that all ranks pass the same group to that call",
    Wrong.PEER: "see how that line computes the rank that it sends to or receives from",
    Wrong.STANDS_STILL: "look at what it does there: a lock, a data loader, a file, a device",
    Wrong.ENDED_EARLY: "give all ranks the same number of batches (drop_last, "
    "torch.distributed.algorithms.join)",
    Wrong.DIED: "look for a signal: dmesg (out of memory), the scheduler's log",
}
