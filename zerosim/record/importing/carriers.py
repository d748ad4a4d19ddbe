"""The times of data movement: kernels of NCCL, spans of Gloo's threads."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from itertools import islice
from math import prod

from zerosim.record.importing.calls import ImportedCall, asked_for, hidden
from zerosim.record.importing.kineto import NATIVE, KinetoProfile
from zerosim.record.importing.spans import ProfileSpan
from zerosim.record.importing.values import counted, sizes_at, type_at
from zerosim.schema.events import Op

_GLOO_NAMES = {
    Op.ALL_REDUCE: "gloo:all_reduce",
    Op.REDUCE_SCATTER: "gloo:all_reduce",  # Gloo implements it as an all-reduce
    Op.ALL_GATHER: "gloo:all_gather",
    Op.BROADCAST: "gloo:broadcast",
    Op.REDUCE: "gloo:reduce",
    Op.GATHER: "gloo:gather",
    Op.SCATTER: "gloo:scatter",
    Op.ALL_TO_ALL: "gloo:all_to_all",
    Op.BARRIER: "gloo:barrier",
    Op.SEND: "gloo:send",
    Op.RECEIVE: "gloo:recv",
}
_LOOKS_AHEAD = 64
"""Maximum number of collectives of one kind that may overtake each other on Gloo's threads."""


def calls_of(profile: KinetoProfile) -> list[ImportedCall]:
    """The calls of a rank in order of issue."""
    found = list(asked_for(profile))
    _carry_by_gloo(profile, [call for call in found if call.backend == "gloo"])
    _carry_by_kernels(profile, [call for call in found if call.backend == "nccl"])
    return sorted([*found, *hidden(profile)], key=lambda call: call.span.start_ns)


def _carry_by_gloo(profile: KinetoProfile, calls: list[ImportedCall]) -> None:
    """Find when Gloo executed the calls, and the dtypes missing for operators with lists."""
    waiting: dict[str, deque[ProfileSpan]] = defaultdict(deque)
    for span in profile.spans:
        if span.name.startswith(NATIVE[0]):
            waiting[span.name].append(span)
    for call in calls:
        spans = waiting[_GLOO_NAMES.get(call.op, "")]
        found = next((one for one in islice(spans, _LOOKS_AHEAD) if _fits(call, one)), None)
        if found is None:
            continue
        spans.remove(found)
        call.carried = found
        if not call.dtype:
            call.dtype = type_at(found.args, 0)


def _fits(call: ImportedCall, span: ProfileSpan) -> bool:
    """Whether a span of Gloo can belong to this call: later, and with as many elements."""
    if span.start_ns < call.span.start_ns:
        return False
    shapes = sizes_at(span.args, 0)
    if shapes is None or call.elements is None:
        return True
    size = sum(prod(shape) for shape in shapes)
    if call.op is Op.ALL_GATHER and not call.ranks:  # its argument is a part, of an unknown number
        return size > 0 and call.elements % size == 0
    return size == call.elements or (bool(call.ranks) and size * len(call.ranks) == call.elements)


def _carry_by_kernels(profile: KinetoProfile, calls: list[ImportedCall]) -> None:
    """Find the NCCL kernels of calls: by their link, else by the launching call.

    Older versions do not link kernels to calls; the launch then lies within the call.
    """
    by_link: dict[int, ProfileSpan] = {}
    launched: dict[tuple[int | str, int | str], list[tuple[int, ProfileSpan]]] = defaultdict(list)
    for kernel in reversed(profile.kernels):  # of several, the first wins
        if (link := counted(kernel.args, "External id")) is not None:
            by_link[link] = kernel
        launch = profile.launches.get(counted(kernel.args, "correlation") or 0)
        if launch is not None:
            launched[launch.thread].append((launch.start_ns, kernel))
    for some in launched.values():
        some.sort(key=lambda one: one[0])
    for call in calls:
        links = [counted(one.args, "External id") for one in (call.span, *call.span.within())]
        found = next((by_link[link] for link in links if link in by_link), None)
        if found is None:
            some = launched[call.span.thread]
            place = bisect_left(some, call.span.start_ns, key=lambda one: one[0])
            if place < len(some) and some[place][0] <= call.span.end_ns:
                found = some[place][1]
        call.carried = found
