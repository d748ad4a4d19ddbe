"""When a call was over: on a CPU when it returned, on a device when the device had done it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from zerosim.record.rankfile import RankTrace
from zerosim.schema.events import Event


def over_times(rank: RankTrace) -> Callable[[Event], int | None]:
    """What says of a rank's events when they were over at the latest; None if nobody knows.

    A device does later what a program asks it for, so that a call returned says little. It is over
    when the device's clock says so, or when the device had come to a border after it.
    """
    if rank.header.device == "cpu":
        return lambda event: event.end_ns
    quiet = [sample.time_ns for sample in rank.wire_samples if sample.is_quiet]

    def over_ns(event: Event) -> int | None:
        if event.device_end_ns is not None:
            return event.device_end_ns
        place = bisect_left(quiet, event.issue_ns)
        return quiet[place] if place < len(quiet) else None

    return over_ns
