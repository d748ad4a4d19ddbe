"""The end of a call: its return on a CPU, its completion on a device."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from zerosim.record.rankfile import RankTrace
from zerosim.schema.events import Event


def over_times(rank: RankTrace) -> Callable[[Event], int | None]:
    """A function from an event of a rank to the latest time of its end; None if unknown.

    A device executes a call after the program issues it, so its return does not show its end. A
    call has ended at its recorded device time, or when the device reached a later phase border.
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
