"""How far each rank came, and how it ended."""

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
    """Where in the training something is, so that it can be compared."""
    phase = thing.phase
    at_end = _ORDER[phase] if phase is not Phase.SETUP else -1
    return thing.iteration, getattr(thing, "micro_step", 0), at_end


@dataclass(frozen=True)
class RankState:
    """One rank as it was last seen.

    Attributes:
        alive: whether its process runs; None if that cannot be known.
        tells_end: whether its trace would say that it had ended.
        until_ns: until when it is known to have been: now, or its last row.
    """

    trace: RankTrace
    alive: bool | None
    now_ns: int | None
    tells_end: bool = True

    @property
    def rank(self) -> int:
        """Its number."""
        return self.trace.rank

    @property
    def failure(self) -> Failure | None:
        """Why it could not go on."""
        return self.trace.failure

    @property
    def failed_by_itself(self) -> bool:
        """Whether it failed, and not because of another rank."""
        return self.failure is not None and not self.failure.peer_lost

    @property
    def has_ended(self) -> bool:
        """Whether it left in order."""
        return self.trace.complete and self.failure is None

    @property
    def is_gone(self) -> bool:
        """Whether it left no word, and runs no more as far as is known."""
        is_open = not self.trace.complete and self.failure is None
        return self.tells_end and is_open and self.alive is not True

    @cached_property
    def last_ns(self) -> int:
        """When it wrote its last row."""
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
        """When it was last seen, also of one that wrote no row about what it did."""
        return max([self.last_ns, *(one.time_ns for one in self.trace.standstills[-1:])])

    @cached_property
    def open_events(self) -> list[Event]:
        """What it has begun and not ended, in order."""
        return [
            event
            for number in self.trace.unfinished
            if (event := self.trace.events.find(number)) is not None
        ]

    @cached_property
    def over_ns(self) -> Callable[[Event], int | None]:
        """What says when an event was over; of a device's call, when the device had done it."""
        return over_times(self.trace)

    @property
    def open_calls(self) -> list[Event]:
        """Of those its calls."""
        return [event for event in self.open_events if event.kind is Kind.COLLECTIVE]

    @cached_property
    def moment(self) -> Moment:
        """Where it was last."""
        found = [moment_of(one) for one in self.trace.wire_samples[-1:]]
        if self.failure is not None and self.failure.op is None:
            found.append(moment_of(self.failure))
        return max(found, default=(-1, 0, -1))

    @property
    def standing(self) -> tuple[str, ...]:
        """The lines where it stands still, the innermost first; empty if it went on, or did not."""
        last = self.trace.standstills[-1:]
        return last[0].stack if last and self.stood_still else ()

    @property
    def is_cut_off(self) -> bool:
        """Whether it stood still until it was ended: it would not have gone on."""
        return self.is_gone and self.stood_still

    @property
    def stood_still(self) -> bool:
        """Whether it ran for some time after its last row, and wrote nothing."""
        last = self.trace.standstills[-1:]
        return bool(last) and self.last_ns <= last[0].time_ns


def states_of(trace: Trace, seen: ProcessStates) -> dict[int, RankState]:
    """The ranks that left a trace."""
    tells = trace.manifest.source is not Source.IMPORTED
    return {
        rank.rank: RankState(rank, seen.alive.get(rank.rank), seen.now_ns, tells)
        for rank in trace.ranks
    }
