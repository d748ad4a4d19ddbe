"""Moments of an iteration, their order, and the memory at each.

A moment is the start of a phase or of a unit's computation, named as a position in a replay
(`replay.places`): "backward compute blocks.2", "update", "end". Every rank's program passes them in
the same order, so results by moment do not depend on the speed of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zerosim.analysis.memory import Timeline
from zerosim.base.language import term
from zerosim.record import RankTrace
from zerosim.schema.events import STEP_PHASES, Event, Kind, Phase
from zerosim.schema.memory import Moment, Role
from zerosim.view.reading.wording import said

END = "end"
Held = Mapping[tuple[Role, str], int]


@dataclass(frozen=True, slots=True)
class Passed:
    """The passing of a rank through a moment.

    Attributes:
        at: its position in the replay.
        unit: "" for a phase.
        held: the rank's memory then, by role and unit.
    """

    at: str
    phase: Phase
    unit: str
    time_ns: int
    held: Held

    @property
    def label(self) -> str:
        """The name of the moment."""
        if self.at == END:
            return said("moments.end")
        key = "moments.unit" if self.unit else "moments.phase"
        return said(key, unit=self.unit, phase=term(self.phase))

    def bytes(self, role: str = "", unit: str = "") -> int:
        """Bytes of the rank for one role and unit, or for all."""
        return sum(
            size
            for (each, of), size in self.held.items()
            if role in ("", each) and unit in ("", of)
        )


def moments_of(rank: RankTrace, line: Timeline, iteration: int) -> Sequence[Passed]:
    """The moments of one iteration, in the program's order; among repeated ones, the first."""
    found: dict[str, Passed] = {}

    def add(at: str, phase: Phase, unit: str, time_ns: int, position: int) -> None:
        found.setdefault(at, Passed(at, phase, unit, time_ns, line.at(position)))

    for sample in line.samples:
        if sample.moment is Moment.PHASE and sample.iteration == iteration:
            at = str(sample.phase) if sample.phase in STEP_PHASES else END
            add(at, sample.phase, "", sample.time_ns, sample.number)
    for event in in_program_order(rank, iteration):
        if event.kind is Kind.COMPUTE and event.unit:
            at = f"{event.phase} compute {event.unit}"
            # no sample is recorded if nothing has changed
            seen = [
                sample.number
                for sample in line.samples
                if sample.time_ns <= event.issue_ns
                or (sample.event == event.id and sample.moment is Moment.BEGIN)
            ]
            add(at, event.phase, event.unit, event.issue_ns, max(seen, default=-1))
    return sorted(found.values(), key=lambda each: each.time_ns)


def in_program_order(rank: RankTrace, iteration: int) -> Sequence[Event]:
    """The events of an iteration, in order of issue."""
    return [event for event in rank.events if event.iteration == iteration]
