"""Evidence of findings: calls of each rank, waiting times, last common calls."""

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
from zerosim.verify.diagnosis.differing import are_of_phases, differences, is_alike
from zerosim.verify.diagnosis.findings import Wrong
from zerosim.verify.diagnosis.ranks import RankState

PATIENCE_S = 3.0
"""A rank that others wait for less long than this is not hanging: it may still arrive."""


@dataclass(frozen=True, slots=True)
class ObservedRun:
    """The data from which missing and different calls are found.

    Attributes:
        until_ns: now, for a running program; else the last sign of any rank.
    """

    trace: Trace
    states: Mapping[int, RankState]
    groups: Sequence[GroupCalls]
    until_ns: int
    patience_s: float = PATIENCE_S

    @property
    def is_cut_off(self) -> bool:
        """Whether all ranks that did not end hung until they were killed."""
        left = [state for state in self.states.values() if not state.has_ended]
        return bool(left) and all(state.is_cut_off for state in left)


def contradicts(found: Disagreement) -> bool:
    """Whether ranks made different calls, so that waiting cannot help."""
    calls = list(found.called.values())
    if not found.lacking and are_of_phases(calls):
        return True
    return any(differences(calls[0], other) for other in calls[1:])


def since(found: Disagreement) -> int:
    """The time at which the first rank called, on that rank's clock."""
    return min((event.issue_ns for event in found.called.values()), default=2**63)


def next_of(rank: int, found: Sequence[Disagreement]) -> Disagreement | None:
    """The first call that a rank lacks; None if it lacks none.

    In a group, that is the first call of the others. Messages wait in several directions at once:
    among these it is the first in the rank's earlier iterations.
    """
    lacked = [one for one in found if rank in one.lacking and one.called]
    first = min(lacked, key=since, default=None)
    if first is None or not first.group.is_way:
        return first
    return min((one for one in lacked if one.group.is_way), key=lambda one: _turn(rank, one))


def _turn(rank: int, found: Disagreement) -> tuple[int, bool, int]:
    """The key by which due messages of a rank are ordered: that of its last equal call."""
    end = next(iter(found.called.values()))
    before = found.group.calls[rank][: found.position]
    like = next((one for one in reversed(before) if is_alike(one, end)), None)
    return end.iteration, like is None, end.issue_ns if like is None else like.issue_ns


def sides(found: Disagreement) -> Iterator[str]:
    """The calls of ranks, with equal ones grouped."""
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
    """The ranks that made the expected call, or its other end: "which ranks 0 and 2 called from
    t.py:8".

    Args:
        first: whether they called before the culprits.
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
    """The waiting ranks and their waiting times."""
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
    """Ranks with a call that has not ended."""
    return [
        rank
        for rank, event in found.called.items()
        if rank in run.states
        and rank not in found.culprits
        and (run.states[rank].over_ns(event) is None or bool(event.error))
    ]


def waited_ns(run: ObservedRun, found: Disagreement) -> int:
    """The waiting times of ranks that made the call."""
    times = []
    for rank in waiting(run, found):
        event = found.called[rank]
        end_ns = event.end_ns if event.error else None
        times.append((end_ns or run.until_ns) - event.issue_ns)
    return max(times, default=0)


def common(found: Disagreement) -> str:
    """The last call that all ranks made in the same way."""
    position = found.position - 1
    calls = [one[position] for one in found.group.calls.values() if 0 <= position < len(one)]
    if len(calls) < len(found.group.calls) or not calls:
        return wording.said("evidence.none_common")
    return wording.said("evidence.common", call=wording.call(calls[0]))


def advice(about: Wrong | str, **values: object) -> str:
    """The advice for a finding."""
    key = about.name.lower() if isinstance(about, Wrong) else about
    return wording.said(f"advice.{key}", **values)
