"""What happens when: moments of an iteration, their order, and what memory holds at them.

A moment is the beginning of a phase or of a unit's computation, named by its place in the replay
(`replay.places`): "backward compute blocks.2", "update", "end". Every rank's program passes them
in the same order, so what is said of moments does not depend on how fast a run was.
Imports the standard library, `facts.base` and zerosim's analysis of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from zerosim.analysis.memory import timeline
from zerosim.events import Event, Kind, Phase
from zerosim.lessons.facts.base import Base
from zerosim.lessons.recordings import Recordings
from zerosim.memory import Moment, Role
from zerosim.record import iterations
from zerosim.replay.places import place

END = "end"
_BEFORE_END = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
Held = Mapping[tuple[Role, str], int]


@dataclass(frozen=True, slots=True)
class Passed:
    """A rank passes a moment.

    Attributes:
        at: its place in the replay.
        unit: "" for a phase.
        held: what the rank has then, by role and unit.
    """

    at: str
    phase: Phase
    unit: str
    time_ns: int
    held: Held

    @property
    def label(self) -> str:
        """How it is called."""
        if self.at == END:
            return "the iteration is over"
        return f"{self.phase} of {self.unit} begins" if self.unit else f"{self.phase} begins"

    def bytes(self, role: str = "", unit: str = "") -> int:
        """What the rank has for one role and unit, or for all."""
        return sum(
            size
            for (each, of), size in self.held.items()
            if role in ("", each) and unit in ("", of)
        )


class Moments(Base):
    """Facts of moments; of the last complete iteration."""

    def __init__(self, recordings: Recordings) -> None:
        super().__init__(recordings)
        self._passed: Callable[[str, int], Sequence[Passed]] = lru_cache(None)(
            lambda run, rank: _moments_of(recordings, run, rank)
        )

    def moments(self, run: str, *phases: str) -> list[tuple[str, str]]:
        """What can be marked: where each phase begins, and each unit's computation in `phases`.

        Returns:
            Each moment's place and how it is called, in the program's order.
        """
        return [(each.at, each.label) for each in self._chosen(run, phases)]

    def label_of(self, run: str, at: str) -> str:
        """How a moment is called."""
        return dict(self.moments(run, *_BEFORE_END))[at]

    def held_at(self, run: str, at: str, role: str = "", unit: str = "", rank: int = 0) -> int:
        """What a rank holds when a moment begins: of all roles and units, or of one."""
        found = next(each for each in self._passed(run, rank) if each.at == at)
        return found.bytes(role, unit)

    def fullest(self, run: str, *phases: str, rank: int = 0) -> str:
        """The moment at which a rank holds the most."""
        return max(self._chosen(run, phases, rank), key=lambda each: each.bytes()).at

    def most(self, run: str, role: str = "", *phases: str, unit: str = "", rank: int = 0) -> int:
        """The most that a rank holds at any moment."""
        return max(each.bytes(role, unit) for each in self._chosen(run, phases, rank))

    def whole_gradients(self, run: str, at: str, rank: int = 0) -> int:
        """Gradients of whole units that a rank holds when a moment begins."""
        shard = {
            unit["name"]: unit["padded_elements"] * self.element_bytes(run) // self.num_ranks(run)
            for unit in self._document(run)["units"]
        }
        found = next(each for each in self._passed(run, rank) if each.at == at)
        sizes = {unit: found.bytes(Role.GRADIENTS, unit) for unit in shard}
        # a unit that is more than its shard is whole, beside which the shard may be made already
        whole = {unit: shard[unit] * self.num_ranks(run) for unit in shard}
        return sum(min(size, whole[unit]) for unit, size in sizes.items() if size > shard[unit])

    def gone_by(self, run: str, role: str, unit: str) -> str:
        """The first moment at which the ranks have less for a unit than they have had at most.

        Memory is looked at where that costs little, so a rank may notice a moment late; what one
        of the ranks no longer has is gone on all of them, as they run the same program.
        """
        places = [each.at for each in self._passed(run, 0)]
        found = [len(places) - 1]
        for rank in range(self.num_ranks(run)):
            sizes = [each.bytes(role, unit) for each in self._passed(run, rank)]
            whole = sizes.index(max(sizes))
            found += [at for at in range(whole, len(sizes)) if sizes[at] < sizes[whole]][:1]
        return places[min(found)]

    def by_birth(self, run: str, *roles: str, rank: int = 0) -> list[str]:
        """Roles in the order in which a rank first holds something for them at a phase's border."""
        borders = self._chosen(run, (), rank)

        def birth(role: str) -> int:
            return next(at for at, each in enumerate(borders) if each.bytes(role))

        return sorted(roles, key=birth)

    def called_by(self, run: str, purpose: str, *phases: str, rank: int = 0) -> str:
        """The first moment by which a collective of a purpose has been called."""
        called = min(
            event.issue_ns
            for event in _events(self._recordings, run, rank)
            if event.kind is Kind.COLLECTIVE and event.purpose == purpose
        )
        chosen = self._chosen(run, phases, rank)
        return next(each.at for each in chosen if each.time_ns > called)

    def calls_in_order(self, run: str, purpose: str, *units: str, rank: int = 0) -> list[str]:
        """The units whose collectives of a purpose a rank calls, in that order; all, or some."""
        return [
            event.unit
            for event in _events(self._recordings, run, rank)
            if event.kind is Kind.COLLECTIVE
            and event.purpose == purpose
            and (not units or event.unit in units)
        ]

    def in_words(self, names: Sequence[str]) -> str:
        """Names in order, as a sentence has them."""
        return ", then ".join(names)

    def in_order(self, run: str, places: Mapping[str, str]) -> list[str]:
        """Keys in the order in which a run comes to their places."""
        document = self._document(run)
        return sorted(places, key=lambda key: place(document, places[key]))

    def _chosen(self, run: str, phases: Sequence[str], rank: int = 0) -> list[Passed]:
        """The beginnings of phases, and in some of them those of computations."""
        return [each for each in self._passed(run, rank) if not each.unit or each.phase in phases]


def _events(recordings: Recordings, run: str, rank: int) -> Sequence[Event]:
    """Of one rank in the last complete iteration, as the program asked for them."""
    trace = recordings.trace(run)
    last = iterations(trace)[-1]
    events = [event for event in trace.ranks[rank].events if event.iteration == last]
    return sorted(events, key=lambda event: event.id)


def _moments_of(recordings: Recordings, run: str, rank: int) -> Sequence[Passed]:
    """In the program's order; of what happens twice, as in an accumulation, the first."""
    trace = recordings.trace(run)
    line, last = timeline(trace.ranks[rank]), iterations(trace)[-1]
    borders = [
        sample
        for sample in line.samples
        if sample.moment is Moment.PHASE and sample.iteration == last
    ]
    found: dict[str, Passed] = {}

    def add(at: str, phase: Phase, unit: str, time_ns: int, position: int) -> None:
        found.setdefault(at, Passed(at, phase, unit, time_ns, line.at(position)))

    for sample in borders:
        at = str(sample.phase) if sample.phase in _BEFORE_END else END
        add(at, sample.phase, "", sample.time_ns, sample.number)
    for event in _events(recordings, run, rank):
        if event.kind is Kind.COMPUTE and event.unit:
            at = f"{event.phase} compute {event.unit}"
            # a look that finds nothing new leaves no sample
            seen = [
                sample.number
                for sample in line.samples
                if sample.time_ns <= event.issue_ns
                or (sample.event == event.id and sample.moment is Moment.BEGIN)
            ]
            add(at, event.phase, event.unit, event.issue_ns, max(seen, default=-1))
    return sorted(found.values(), key=lambda each: each.time_ns)
