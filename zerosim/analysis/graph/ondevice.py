"""A trace on its devices' time: the input of the graph, wherever devices have times.

On the host, a call returns before the device executes it. If the time of execution on the device is
known, events have those times, phases are those of the device's computations, and a wait is a stall
of its stream. Events without device times, at the end of a killed rank, keep the time of their
issue on the host.
"""

from __future__ import annotations

from dataclasses import replace

from zerosim.record import RankTrace, Trace


def on_device(trace: Trace) -> Trace:
    """The trace on its devices' time; unchanged without device times."""
    events = [rank.events.on_device() for rank in trace.ranks]
    if all(own is rank.events for own, rank in zip(events, trace.ranks, strict=True)):
        return trace
    ranks = zip(trace.ranks, events, strict=True)
    return replace(trace, ranks=tuple(replace(rank, events=own) for rank, own in ranks))


def is_on_device(rank: RankTrace) -> bool:
    """Whether any of a rank's events has a device time."""
    return any(time is not None for time in rank.events.column("device_end_ns"))
