"""Computation of a device by unit, and its stalls during communication, from its kernels.

The times are divided as in Holistic Trace Analysis (HTA): communication is the union of NCCL's
kernels; exposed communication is its part that no other kernel overlaps. The same intervals are
waits here. Consecutive kernels that were launched for one unit are one computation.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter, itemgetter
from typing import Any

from zerosim.record.importing.calls import ImportedCall
from zerosim.record.importing.kineto import KinetoProfile
from zerosim.record.importing.phase_timeline import PhaseTimeline
from zerosim.record.importing.spans import ProfileSpan
from zerosim.record.importing.values import counted
from zerosim.schema.events import Kind

_TOGETHER_NS = 50_000
"""A device without a kernel for longer than this is idle; launching the next kernel takes less."""
_LEAST_IDLE = 200
"""Gaps that count as computing total at most 1/200 of the idle time, so that the idle time of a
seldom idle device is accurate, too.
"""
_OF_UNIT = re.compile(
    r"FSDP::(pre_forward|pre_backward|post_forward|post_backward_reduce) \((.*)\)"
)
Interval = tuple[int, int]


def computed(profile: KinetoProfile, places: PhaseTimeline) -> Iterator[dict[str, Any]]:
    """Computations, in order, as the fields of events."""
    units, together_ns = _Units(profile), _gap_ns(profile)
    turn: dict[str, Any] | None = None
    for kernel, start_ns in _one_after_another(_of_computing_streams(profile.computing)):
        launch = profile.launches.get(counted(kernel.args, "correlation") or -1)
        asked_ns = min(kernel.start_ns, kernel.start_ns if launch is None else launch.start_ns)
        place, unit = places.at(asked_ns), units.at(asked_ns)
        same = {
            "iteration": place.iteration,
            "micro_step": place.micro_step,
            "phase": place.phase,
            "unit": unit,
        }
        if turn is not None:
            is_next = start_ns - turn["end_ns"] <= together_ns
            if is_next and all(turn[name] == value for name, value in same.items()):
                turn["end_ns"] = max(turn["end_ns"], kernel.end_ns)
                continue
            yield _timed(turn)
        turn = {
            "kind": Kind.COMPUTE,
            **same,
            "issue_ns": asked_ns,
            "start_ns": start_ns,
            "end_ns": kernel.end_ns,
        }
    if turn is not None:
        yield _timed(turn)


def _gap_ns(profile: KinetoProfile) -> int:
    """The longest gap between kernels that counts as computing."""
    kernels = (*profile.computing, *profile.kernels)
    busy = union((one.start_ns, one.end_ns) for one in kernels)
    gaps = sorted(after - end for (_, end), (after, _) in pairwise(busy))
    fitting = bisect_right(list(accumulate(gaps)), sum(gaps) // _LEAST_IDLE)
    return min(gaps[fitting - 1] if fitting else 0, _TOGETHER_NS)


def _of_computing_streams(kernels: Sequence[ProfileSpan]) -> list[ProfileSpan]:
    """The kernels of the busiest stream, and of others that compute at least half as long.

    The rest prepare communication.
    """
    lengths: Counter[object] = Counter()
    for kernel in kernels:
        lengths[kernel.thread] += kernel.end_ns - kernel.start_ns
    most = max(lengths.values(), default=0)
    return [kernel for kernel in kernels if 2 * lengths[kernel.thread] >= most]


def _one_after_another(kernels: Sequence[ProfileSpan]) -> Iterator[tuple[ProfileSpan, int]]:
    """Kernels in order, each from where none before it covers its time."""
    until_ns = 0
    for kernel in sorted(kernels, key=attrgetter("start_ns")):
        start_ns = max(kernel.start_ns, until_ns)
        if start_ns < kernel.end_ns or kernel.start_ns >= until_ns:
            yield kernel, start_ns
        until_ns = max(until_ns, kernel.end_ns)


def stalls(
    profile: KinetoProfile, calls: Sequence[ImportedCall]
) -> Iterator[tuple[Interval, ImportedCall]]:
    """Intervals of communication without computation, and the call that ended last by then."""
    moved = sorted((one for one in calls if one.carried is not None), key=_end)
    busy = union((one.start_ns, one.end_ns) for one in profile.computing)
    moving = union((one.carried.start_ns, one.carried.end_ns) for one in moved if one.carried)
    ends = [_end(one) for one in moved]
    for start, end in without(moving, busy):
        # the first that had not ended before: if one ended then, it is that one
        place = min(bisect_right(ends, end - 1), len(moved) - 1)
        yield (start, end), moved[place]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time as ordered intervals that do not overlap."""
    found: list[Interval] = []
    for start, end in sorted(intervals, key=itemgetter(0)):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        elif end > start:
            found.append((start, end))
    return found


def without(some: Sequence[Interval], others: Sequence[Interval]) -> Iterator[Interval]:
    """The parts of some intervals that no other interval covers; both are sorted and disjoint."""
    ends = [end for _, end in others]
    for start, end in some:
        at = start
        for begin, over in others[bisect_right(ends, start) :]:
            if begin >= end:
                break
            if begin > at:
                yield at, begin
            at = max(at, over)
        if at < end:
            yield at, end


def _end(call: ImportedCall) -> int:
    assert call.carried is not None, "it is known when it moved"
    return call.carried.end_ns


def _timed(turn: dict[str, Any]) -> dict[str, Any]:
    return turn | {"device_begin_ns": turn["start_ns"], "device_end_ns": turn["end_ns"]}


class _Units:
    """The current module, by annotations of `fully_shard` of its forward and backward."""

    def __init__(self, profile: KinetoProfile) -> None:
        marks: list[tuple[int, str]] = []
        for span in profile.spans:
            if (match := _OF_UNIT.fullmatch(span.name)) is not None:
                begins = match[1].startswith("pre_")
                time_ns = span.start_ns if begins else span.end_ns
                marks.append((time_ns, match[2] if begins else ""))
        marks.sort(key=itemgetter(0))
        self._times = [time for time, _ in marks]
        self._names = [name for _, name in marks]

    def at(self, time_ns: int) -> str:
        place = bisect_right(self._times, time_ns) - 1
        return self._names[place] if place >= 0 else ""
