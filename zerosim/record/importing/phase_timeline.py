"""The position of the program: phases of its iterations, from the order of a profile.

It follows the same order as `zerosim.trace.autolabel.phases` does in a running program, from marks:

    forward    annotated by PyTorch's wrappers; operators that a backward refers to ran in it
    backward   autograd's engine evaluates functions
    update     the outermost `Optimizer.step#`
    outside    after the update, until the next forward

An iteration ends with its update, or when gradients are discarded without an update. One that began
before the window does not count: its events belong to no iteration. `ProfilerStep#N` gives
iterations the program's own numbers, if it has one for each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from zerosim.record.importing.kineto import (
    ACCUMULATES,
    ENGINE,
    SHARD,
    SHARDED,
    STEP,
    WINDOW,
    WRAPPED,
    ZERO,
    KinetoProfile,
)
from zerosim.record.importing.spans import ProfileSpan
from zerosim.schema.events import Phase

_FORWARDS = (f"{SHARD}root_pre_forward", f"{SHARD}pre_forward")


@dataclass(frozen=True, slots=True)
class PhaseStart:
    """The program's position from this time on."""

    begin_ns: int
    iteration: int
    micro_step: int
    phase: Phase


class _Mark(StrEnum):
    FORWARD = "forward"
    BACKWARD = "backward"
    ADDS = "a gradient is added up"
    UPDATE = "update"
    UPDATED = "the update is over"
    CLEARED = "gradients are thrown away"
    NEXT = "the next step of the profiler"


class PhaseTimeline:
    """The positions of one rank's program, in order."""

    def __init__(self, profile: KinetoProfile) -> None:
        marks = sorted(_marks(profile), key=lambda one: one[0])
        found = _whole(list(_places(marks)), is_cleared=any(m is _Mark.CLEARED for _, m in marks))
        if not profile.counts_iterations:
            found = [PhaseStart(one.begin_ns, -1, 0, one.phase) for one in found]
        numbers = _numbers(found, [s for s in profile.spans if s.name.startswith(WINDOW)])
        self.all = [
            PhaseStart(
                one.begin_ns, numbers.get(one.iteration, one.iteration), one.micro_step, one.phase
            )
            for one in found
        ]
        self._begins = [one.begin_ns for one in self.all]

    def at(self, time_ns: int) -> PhaseStart:
        """The position of the program at a time."""
        place = bisect_right(self._begins, time_ns) - 1
        return self.all[place] if place >= 0 else PhaseStart(time_ns, -1, 0, Phase.OUTSIDE)


def _marks(profile: KinetoProfile) -> Iterator[tuple[int, _Mark]]:
    spans, flows = profile.spans, profile.differentiated_ns
    evaluated = [one for one in spans if one.name.startswith(ENGINE)]
    updates = [one for one in spans if one.name.startswith(STEP) and not _is_inner(one, STEP)]
    aside = _union([*evaluated, *updates])

    def is_aside(time_ns: int) -> bool:
        place = bisect_right(aside, (time_ns, 2**63)) - 1
        return place >= 0 and time_ns < aside[place][1]

    for span in spans:
        is_wrapper = span.name == WRAPPED or span.name.startswith((f"{SHARDED}forward", *_FORWARDS))
        if is_wrapper and not is_aside(span.start_ns) and _trains(span, flows):
            yield span.start_ns, _Mark.FORWARD
        elif span.name.startswith(ZERO):
            yield span.start_ns, _Mark.CLEARED
    yield from ((time, _Mark.FORWARD) for time in flows if not is_aside(time))
    for span in evaluated:
        if not _is_inner(span, ENGINE):
            yield span.start_ns, _Mark.BACKWARD
        if span.name.endswith(ACCUMULATES):
            yield span.start_ns, _Mark.ADDS
    for span in updates:
        yield span.start_ns, _Mark.UPDATE
        yield span.end_ns, _Mark.UPDATED
    if not updates:
        yield from ((s.start_ns, _Mark.NEXT) for s in spans if s.name.startswith(WINDOW))


def _is_inner(span: ProfileSpan, name: str) -> bool:
    return any(one.name.startswith(name) for one in span.around())


def _trains(span: ProfileSpan, flows: tuple[int, ...]) -> bool:
    """Whether a backward refers to operators in a wrapper; True for other spans, or if unknown."""
    if span.name != WRAPPED or not flows:
        return True
    return bisect_right(flows, span.end_ns) > bisect_right(flows, span.start_ns)


def _union(spans: Iterable[ProfileSpan]) -> list[tuple[int, int]]:
    """The intervals in which any of these is open, ascending."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted((one.start_ns, one.end_ns) for one in spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def _places(marks: list[tuple[int, _Mark]]) -> Iterator[PhaseStart]:
    """The positions derived from the marks; the first mark may lie within an iteration."""
    has_forwards = any(mark is _Mark.FORWARD for _, mark in marks)
    walk = _Walk(has_forwards)
    is_cut = has_forwards and marks[0][1] in _AMIDST
    for time, mark in marks:
        if is_cut:
            is_cut = mark not in (_Mark.UPDATED, _Mark.CLEARED)
            continue
        before = walk.here
        walk.pass_by(mark)
        if walk.here != before or not walk.was_anywhere:
            walk.was_anywhere = True
            yield PhaseStart(time, *walk.here)


_AMIDST = (_Mark.BACKWARD, _Mark.ADDS, _Mark.UPDATE, _Mark.UPDATED)
"""Marks that cannot begin an iteration: its beginning was not recorded."""


@dataclass(slots=True)
class _Walk:
    """The state of the timeline while marks are read.

    Attributes:
        has_forwards: whether a forward is ever seen; if not, iterations begin with backward.
        here: iteration, micro-step, phase.
    """

    has_forwards: bool
    here: tuple[int, int, Phase] = (0, 0, Phase.OUTSIDE)
    was_anywhere: bool = False
    has_stepped: bool = False
    has_gone_back: bool = False

    def pass_by(self, mark: _Mark) -> None:
        """Advance to the position of a mark."""
        match mark:
            case _Mark.FORWARD:
                self._begin(Phase.FORWARD)
            case _Mark.BACKWARD if self.has_stepped and not self.has_forwards:
                self._begin(Phase.BACKWARD)
            case _Mark.BACKWARD:
                self._enter(Phase.BACKWARD)
            case _Mark.ADDS:
                self.has_gone_back = True
            case _Mark.UPDATE:
                self._enter(Phase.UPDATE)
            case _Mark.UPDATED:
                self._step()
            case _ if self.has_gone_back and not self.has_stepped:
                self._step()
            case _:
                pass

    def _begin(self, phase: Phase) -> None:
        """A forward, or a backward without a forward before it: possibly of another micro-step."""
        iteration, micro_step, _ = self.here
        if self.has_stepped:
            iteration, micro_step = iteration + 1, 0
        elif self.has_gone_back:
            micro_step += 1
        self.has_stepped = self.has_gone_back = False
        self.here = iteration, micro_step, phase

    def _enter(self, phase: Phase) -> None:
        self.here = *self.here[:2], phase

    def _step(self) -> None:
        """The iteration is over: its gradients were used or discarded."""
        self.has_stepped = True
        self.here = self.here[0], 0, Phase.OUTSIDE


def _whole(places: list[PhaseStart], *, is_cleared: bool) -> list[PhaseStart]:
    """The places without the last iteration's, if the window ended before its update."""
    updated = {one.iteration for one in places if one.phase is Phase.UPDATE}
    if not updated and is_cleared:
        updated = {one.iteration for one in places if one.phase is Phase.OUTSIDE}
    last = max((one.iteration for one in places), default=0)
    if not updated or last in updated:
        return places
    cut = next(place for place, one in enumerate(places) if one.iteration == last)
    return [*places[:cut], PhaseStart(places[cut].begin_ns, -1, 0, Phase.OUTSIDE)]


def _numbers(places: list[PhaseStart], windows: list[ProfileSpan]) -> dict[int, int]:
    """The program's own number of each iteration, if each has a distinct one."""
    found: dict[int, int] = {}
    begins = [one.start_ns for one in windows]
    for place in places:
        if place.phase is Phase.OUTSIDE or place.iteration in found:
            continue
        last = bisect_right(begins, place.begin_ns) - 1
        is_in = last >= 0 and place.begin_ns < windows[last].end_ns
        text = windows[last].name.removeprefix(WINDOW) if is_in else ""
        if not (text.isascii() and text.isdigit() and len(text) < 12):
            return {}
        found[place.iteration] = int(text)
    is_each = all(after == before + 1 for before, after in pairwise(found.values()))
    return found if is_each else {}
