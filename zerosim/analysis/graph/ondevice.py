"""A trace as its devices saw it: what the graph is made of, wherever devices have times.

On the host a call returns before anything has happened. Where it is known when the device did what
it was asked for, the events stand at those times, phases are those of what the device computed, and
a wait is a stall of its stream. What has no device times, at the end of a rank that was killed,
stays where the host asked for it.
"""

from __future__ import annotations

from dataclasses import replace

from zerosim.record import RankTrace, Trace


def on_device(trace: Trace) -> Trace:
    """The trace on its devices' time; itself if there is none."""
    events = [rank.events.on_device() for rank in trace.ranks]
    if all(own is rank.events for own, rank in zip(events, trace.ranks, strict=True)):
        return trace
    ranks = zip(trace.ranks, events, strict=True)
    return replace(trace, ranks=tuple(replace(rank, events=own) for rank, own in ranks))


def is_on_device(rank: RankTrace) -> bool:
    """Whether any of a rank's events has a device's time."""
    return any(time is not None for time in rank.events.column("device_end_ns"))
