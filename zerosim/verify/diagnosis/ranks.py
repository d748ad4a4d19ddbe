"""The progress of each rank, and its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from zerosim.record import RankTrace, Trace
from zerosim.record.endings import over_times
from zerosim.schema.events import Event, Failure, Kind, Phase, WireSample
from zerosim.schema.manifest import Source
from zerosim.verify.diagnosis.processes import ProcessStates

_ORDER = {phase: place for place, phase in enumerate(Phase)}
Moment = tuple[int, int, int]


def moment_of(thing: Event | Failure | WireSample) -> Moment:
    """A position in the training run, for comparisons."""
    phase = thing.phase
    at_end = _ORDER[phase] if phase is not Phase.SETUP else -1
    return thing.iteration, getattr(thing, "micro_step", 0), at_end


@dataclass(frozen=True)
class RankState:
    """One rank as it was last seen.

    Attributes:
        alive: whether its process runs; None if unknown.
        tells_end: whether its trace records how it ended.
        until_ns: the last time at which it is known to have run: now, or its last row.
    """

    trace: RankTrace
    alive: bool | None
    now_ns: int | None
    tells_end: bool = True

    @property
    def rank(self) -> int:
        """The rank's number."""
        return self.trace.rank

    @property
    def failure(self) -> Failure | None:
        """Why the rank could not continue."""
        return self.trace.failure

    @property
    def failed_by_itself(self) -> bool:
        """Whether it failed independently of other ranks."""
        return self.failure is not None and not self.failure.peer_lost

    @property
    def has_ended(self) -> bool:
        """Whether it ended normally."""
        return self.trace.complete and self.failure is None

    @property
    def is_gone(self) -> bool:
        """Whether it recorded no error, and is not known to run."""
        is_open = not self.trace.complete and self.failure is None
        return self.tells_end and is_open and self.alive is not True

    @cached_property
    def last_ns(self) -> int:
        """The time of its last row."""
        times = [self.trace.header.clock_ns]
        times += [sample.time_ns for sample in self.trace.wire_samples[-1:]]
        for column in ("issue_ns", "start_ns", "end_ns"):
            times += [time for time in self.trace.events.column(column) if time is not None]
        if self.failure is not None:
            times.append(self.failure.time_ns)
        times += [one.since_ns for one in self.trace.standstills[-1:]]
        return max(times)

    @property
    def seen_ns(self) -> int:
        """The last sign of the rank, including rows that are not events."""
        return max([self.last_ns, *(one.time_ns for one in self.trace.standstills[-1:])])

    @cached_property
    def open_events(self) -> list[Event]:
        """Its open events, in order."""
        return [
            event
            for number in self.trace.unfinished
            if (event := self.trace.events.find(number)) is not None
        ]

    @cached_property
    def over_ns(self) -> Callable[[Event], int | None]:
        """The end of an event; for a device's call, the time at which the device completed it."""
        return over_times(self.trace)

    @property
    def open_calls(self) -> list[Event]:
        """The open calls."""
        return [event for event in self.open_events if event.kind is Kind.COLLECTIVE]

    @cached_property
    def moment(self) -> Moment:
        """Its last position."""
        found = [moment_of(one) for one in self.trace.wire_samples[-1:]]
        if self.failure is not None and self.failure.op is None:
            found.append(moment_of(self.failure))
        return max(found, default=(-1, 0, -1))

    @property
    def standing(self) -> tuple[str, ...]:
        """The lines at which it hangs, innermost first; empty if it continued, or did not hang."""
        last = self.trace.standstills[-1:]
        return last[0].stack if last and self.stood_still else ()

    @property
    def is_cut_off(self) -> bool:
        """Whether it hung until it was killed: it would not have continued."""
        return self.is_gone and self.stood_still

    @property
    def stood_still(self) -> bool:
        """Whether it ran for some time after its last row without writing."""
        last = self.trace.standstills[-1:]
        return bool(last) and self.last_ns <= last[0].time_ns


def states_of(trace: Trace, seen: ProcessStates) -> dict[int, RankState]:
    """The ranks that left a trace."""
    tells = trace.manifest.source is not Source.IMPORTED
    return {
        rank.rank: RankState(rank, seen.alive.get(rank.rank), seen.now_ns, tells)
        for rank in trace.ranks
    }
