"""A trace as its devices saw it: what the graph is made of, wherever devices have times.

On the host a call returns before anything has happened. Where it is known when the device did what
it was asked for, the events stand at those times, phases are those of what the device computed, and
a wait is a stall of its stream. What has no device times, at the end of a rank that was killed,
stays where the host asked for it.
"""

from __future__ import annotations

from dataclasses import replace

from zerosim.record import Trace


def on_device(trace: Trace) -> Trace:
    """The trace on its devices' time; itself if there is none."""
    ranks = []
    for rank in trace.ranks:
        events = rank.events.on_device()
        # the counters and the memory were read when the host came to a phase
        ranks.append(
            rank
            if events is rank.events
            else replace(rank, events=events, wire_samples=(), memory_samples=())
        )
    changed = any(new is not old for new, old in zip(ranks, trace.ranks, strict=True))
    return replace(trace, ranks=tuple(ranks)) if changed else trace


def is_on_device(trace: Trace) -> bool:
    """Whether any of its events stands at a device's time."""
    return any(
        time is not None for rank in trace.ranks for time in rank.events.column("device_end_ns")
    )
