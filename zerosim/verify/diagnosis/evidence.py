"""What findings rest on: who called what, who waits how long, what all did alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zerosim.record import Trace
from zerosim.schema.events import Event
from zerosim.verify.diagnosis import wording
from zerosim.verify.diagnosis.calls import (
    Disagreement,
    GroupCalls,
)
from zerosim.verify.diagnosis.differing import differences, is_alike
from zerosim.verify.diagnosis.findings import Wrong
from zerosim.verify.diagnosis.ranks import RankState

PATIENCE_S = 3.0
"""Ranks that wait for another one for less are not said to hang: it may be on its way."""


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """All that structure is found from.

    Attributes:
        until_ns: now, of a run that goes on; else when the last rank was seen.
    """

    trace: Trace
    states: Mapping[int, RankState]
    groups: Sequence[GroupCalls]
    until_ns: int
    patience_s: float = PATIENCE_S

    @property
    def is_cut_off(self) -> bool:
        """Whether all that had not ended stood still until they were ended."""
        left = [state for state in self.states.values() if not state.has_ended]
        return bool(left) and all(state.is_cut_off for state in left)


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
        text = f"{wording.call(event, with_size=True)}{wording.at(event.source)}"
        said.setdefault(text, []).append(rank)
    for text, those in said.items():
        yield wording.said("evidence.called", ranks=wording.ranks(those), call=text)
    if found.lacking:
        forms = wording.forms(found.lacking)
        yield wording.said("evidence.not_come", ranks=wording.ranks(found.lacking), **forms)


def called_by(found: Disagreement, expected: Event, *, first: bool = False) -> str:
    """Who called what was expected, or its other end: "which ranks 0 and 2 called from t.py:8".

    Args:
        first: they did before the culprits.
    """
    if found.group.is_way and found.reference is not None:
        end = found.called[found.reference]
        return wording.said(
            f"evidence.other_end{'_first' * first}",
            rank=end.rank,
            call=wording.short_call(end),
            at=wording.at(end.source),
        )
    others = wording.ranks(rank for rank in found.called if rank not in found.culprits)
    key = f"evidence.which{'_first' * first}"
    return wording.said(key, ranks=others, source=wording.line(expected))


def number(found: Disagreement) -> int:
    """The position of this call among those of its group."""
    return found.group.first + found.position


def waits(run: ObservedRun, found: Disagreement) -> str:
    """Who has waited how long."""
    those = waiting(run, found)
    if not those:
        return ""
    longest = max(run.until_ns - found.called[rank].issue_ns for rank in those)
    if longest <= 0:
        return ""
    key = "evidence.waited" if run.until_ns else "evidence.had_waited"
    time = wording.seconds(longest)
    return wording.said(key, ranks=wording.ranks(those), time=time, **wording.forms(those))


def waiting(run: ObservedRun, found: Disagreement) -> list[int]:
    """Those whose call is not over."""
    return [
        rank
        for rank, event in found.called.items()
        if rank in run.states
        and rank not in found.culprits
        and (run.states[rank].over_ns(event) is None or bool(event.error))
    ]


def waited_ns(run: ObservedRun, found: Disagreement) -> int:
    """How long those who called have waited."""
    times = []
    for rank in waiting(run, found):
        event = found.called[rank]
        end_ns = event.end_ns if event.error else None
        times.append((end_ns or run.until_ns) - event.issue_ns)
    return max(times, default=0)


def common(found: Disagreement) -> str:
    """The last call that all made alike."""
    position = found.position - 1
    calls = [one[position] for one in found.group.calls.values() if 0 <= position < len(one)]
    if len(calls) < len(found.group.calls) or not calls:
        return wording.said("evidence.none_common")
    return wording.said("evidence.common", call=wording.call(calls[0]))


def advice(about: Wrong | str, **values: object) -> str:
    """What to try."""
    key = about.name.lower() if isinstance(about, Wrong) else about
    return wording.said(f"advice.{key}", **values)
