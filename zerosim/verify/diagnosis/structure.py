"""Ranks with missing calls: from the calls of all ranks, and the end of each rank."""

from __future__ import annotations

from collections.abc import Sequence

from zerosim.verify.diagnosis.calls import (
    Disagreement,
    disagreement,
)
from zerosim.verify.diagnosis.contradictions import contradiction, in_other_group
from zerosim.verify.diagnosis.endings import ended_by_themselves, lost
from zerosim.verify.diagnosis.evidence import (
    ObservedRun,
    contradicts,
    next_of,
    since,
    waited_ns,
)
from zerosim.verify.diagnosis.findings import Finding
from zerosim.verify.diagnosis.lone_messages import passed_by, with_other_peer
from zerosim.verify.diagnosis.waiting import at_the_end, crossed, is_blocked, missing


def structural(run: ObservedRun) -> list[Finding]:
    """The faults in the calls, the cause first."""
    found = [one for group in run.groups if (one := disagreement(group)) is not None]
    waiting = sorted((one for one in found if one.called), key=since)
    first = _contradictions(run, waiting) or _ended(run, waiting) or _waited_for(run, waiting)
    return first or list(lost(run))


def _contradictions(run: ObservedRun, found: Sequence[Disagreement]) -> list[Finding]:
    """Ranks made different calls: the first position where they did."""
    first = next(filter(contradicts, found), None)
    if first is None:
        return []
    return [_elsewhere(run, first) or contradiction(run, first)]


def _elsewhere(run: ObservedRun, found: Disagreement) -> Finding | None:
    """The call was made, but in a different group, or with a different rank."""
    return in_other_group(run, found) or with_other_peer(run, found)


def _ended(run: ObservedRun, waiting: Sequence[Disagreement]) -> list[Finding]:
    """Ranks that others wait for have ended, normally or not."""
    if not any(state.failed_by_itself for state in run.states.values()):
        for one in waiting:
            has_ended = any(run.states[r].has_ended for r in one.lacking if r in run.states)
            if has_ended and (early := missing(run, one)) is not None:
                return [early]
    return list(ended_by_themselves(run, waiting))


def _first_lacked(found: Disagreement, roots: Sequence[Disagreement]) -> Disagreement:
    """The first missing call of ranks that lack one."""
    alike = [one for one in roots if one.lacking == found.lacking]
    return next_of(found.lacking[0], alike) or found if found.lacking else found


def _waited_for(run: ObservedRun, waiting: Sequence[Disagreement]) -> list[Finding]:
    """Ranks that are running and have not arrived."""
    roots = [one for one in waiting if not is_blocked(run, one, waiting)]
    looked = (missing(run, _first_lacked(one, roots)) for one in roots)
    if (first := next(filter(None, looked), None)) is not None:
        return [first]
    long_ns = run.patience_s * 1e9
    if not waiting or roots or any(waited_ns(run, one) < long_ns for one in waiting):
        return []
    for one in waiting:
        finding = _elsewhere(run, one) or passed_by(run, one) or at_the_end(run, one)
        if finding is not None:
            return [finding]
    return [crossed(run, waiting)]
