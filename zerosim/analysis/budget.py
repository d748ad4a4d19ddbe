"""The time of each rank by phase, to the nanosecond; and the waits between ranks.

A rank's time is split at every start and end of an event. Each piece is then one of five: the
program computed; it was stalled during communication (exposed communication); it was stalled during
a copy between its tiers (exposed copying); it was stalled because another rank had not arrived yet;
or it did something that was not recorded. Communication and copies without a stall are hidden.
Without recorded waits, none of this is known: then only the arrivals at collectives are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from zerosim.analysis.graph import EventGraph, NodeKind
from zerosim.analysis.graph.kinds import PHASE_CODES, PHASES
from zerosim.analysis.graph.ondevice import is_on_device
from zerosim.analysis.graph.table import NONE, Ints, Mask
from zerosim.schema.events import Kind, Phase


class RankActivity(IntEnum):
    """The activity of a rank."""

    COMPUTE = 0
    EXPOSED = 1
    """Stalled with all ranks present: exposed communication."""
    WAITING = 2
    """Stalled because another rank had not arrived."""
    OTHER = 3
    COPYING = 4
    """Stalled during a copy between its tiers: exposed copying."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """One rank's time in pieces, in order and without gaps.

    Attributes:
        start, end: ns.
        phase: indices in `PHASES`.
        state: codes of `RankActivity`.
        missing: the rank that this rank's collective waited for; `NONE` if there is none.
        communicates: whether a collective of this rank moved bytes; on a device, whether one
            had begun.
        copies: whether a copy between its tiers was in progress.
    """

    rank: int
    start: Ints
    end: Ints
    phase: Ints
    state: Ints
    missing: Ints
    communicates: Mask
    copies: Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Time in ns; compute, exposed, copying, waiting and other sum to the wall time.

    Attributes:
        exposed_ns: stalled in communication.
        waiting_ns: stalled because another rank had not arrived.
        hidden_ns: communication that did not stall the program; a part of the others.
        copying_ns: stalled while bytes were copied between tiers.
        hidden_copying_ns: copying that did not stall it; a part of the others.
    """

    wall_ns: int = 0
    compute_ns: int = 0
    exposed_ns: int = 0
    waiting_ns: int = 0
    other_ns: int = 0
    hidden_ns: int = 0
    copying_ns: int = 0
    hidden_copying_ns: int = 0

    def __add__(self, other: Budget) -> Budget:
        """The sum of both."""
        return Budget(
            **{
                field.name: getattr(self, field.name) + getattr(other, field.name)
                for field in fields(Budget)
            }
        )

    @property
    def overlap(self) -> float | None:
        """The hidden fraction of the communication; None if there was none."""
        total = self.hidden_ns + self.exposed_ns
        return self.hidden_ns / total if total else None

    @property
    def copying_overlap(self) -> float | None:
        """The hidden fraction of the copying; None if there was none."""
        total = self.hidden_copying_ns + self.copying_ns
        return self.hidden_copying_ns / total if total else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """The time of all ranks.

    Attributes:
        by_phase: by rank and phase.
        waited_ns: by waiting rank and awaited rank.
        waits_recorded: False if the stalls of the program are unknown; then `waited_ns` is the time
            between the arrivals at collectives, and only the wall time of a budget is valid.
    """

    waits_recorded: bool
    by_phase: dict[tuple[int, Phase], Budget]
    waited_ns: dict[tuple[int, int], int]

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks, ascending."""
        return tuple(sorted({rank for rank, _ in self.by_phase}))

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases present, in the order of an iteration."""
        present = {phase for _, phase in self.by_phase}
        return tuple(phase for phase in PHASES if phase in present)

    def of(self, *, rank: int | None = None, phase: Phase | None = None) -> Budget:
        """The sum over omitted dimensions."""
        total = Budget()
        for (one, other), budget in self.by_phase.items():
            if rank in (None, one) and phase in (None, other):
                total += budget
        return total

    def waited_for(self, straggler: int) -> int:
        """Total time for which all others waited for a rank, ns."""
        return sum(ns for (_, cause), ns in self.waited_ns.items() if cause == straggler)


def budgets(graph: EventGraph) -> Budgets:
    """Sum the pieces of all ranks."""
    by_phase: dict[tuple[int, Phase], Budget] = {}
    waited: dict[tuple[int, int], int] = {}
    waits_recorded = _records_waits(graph)
    for place, rank in enumerate(graph.trace.ranks):
        pieces = occupancy(graph, place)
        length = pieces.end - pieces.start
        for code in np.unique(pieces.phase).tolist():
            inside = pieces.phase == code
            states = [int(length[inside & (pieces.state == state)].sum()) for state in RankActivity]
            stalls = (pieces.state == RankActivity.EXPOSED) | (pieces.state == RankActivity.WAITING)
            hidden = inside & pieces.communicates & ~stalls
            hidden_copying = inside & pieces.copies & (pieces.state != RankActivity.COPYING)
            by_phase[rank.rank, PHASES[code]] = Budget(
                wall_ns=int(length[inside].sum()),
                compute_ns=states[RankActivity.COMPUTE],
                exposed_ns=states[RankActivity.EXPOSED],
                waiting_ns=states[RankActivity.WAITING],
                other_ns=states[RankActivity.OTHER],
                hidden_ns=int(length[hidden].sum()),
                copying_ns=states[RankActivity.COPYING],
                hidden_copying_ns=int(length[hidden_copying].sum()),
            )
        counts = (pieces.state == RankActivity.WAITING) | (not waits_recorded)
        for straggler in np.unique(pieces.missing[counts & (pieces.missing != NONE)]).tolist():
            time = int(length[counts & (pieces.missing == straggler)].sum())
            waited[rank.rank, straggler] = time
    return Budgets(waits_recorded=waits_recorded, by_phase=by_phase, waited_ns=waited)


def _records_waits(graph: EventGraph) -> bool:
    """A program with recorded computations also records its waits; any other may or may not."""
    return any(
        True for rank in graph.trace.ranks for _ in rank.events.of_kind(Kind.WAIT, Kind.COMPUTE)
    )


def occupancy(graph: EventGraph, place: int) -> Occupancy:
    """Split one rank's time into pieces.

    Args:
        place: position of the rank in `graph.trace.ranks`.
    """
    own = (graph.place == place) & ~graph.is_kind(NodeKind.MATCH)
    borders, phases = _phases(graph, own)
    computes = _on_program(graph, np.flatnonzero(own & graph.is_kind(NodeKind.COMPUTE)))
    waits = np.flatnonzero(own & graph.is_kind(NodeKind.WAIT))
    compute = _disjoint(graph.start[computes], graph.end[computes])
    still = _disjoint(graph.start[waits], graph.end[waits])
    for_copy = waits[_for_copies(graph, waits)]
    still_for_copy = _disjoint(graph.start[for_copy], graph.end[for_copy])
    copies = np.flatnonzero(own & graph.is_kind(NodeKind.COPY))
    copying = _disjoint(graph.start[copies], graph.end[copies])
    begin, arrival, over, last = _collectives(graph, own)
    cuts = np.unique(
        np.concatenate([borders, *compute, *still, *still_for_copy, *copying, begin, arrival, over])
    )
    cuts = cuts[(cuts >= borders[0]) & (cuts <= borders[-1])]
    start, end = cuts[:-1], cuts[1:]
    within = np.searchsorted(begin, start, side="right") - 1
    index = np.maximum(within, 0)
    nothing = np.zeros(len(start), np.bool_)
    in_call = (within >= 0) & (start < over[index]) if len(begin) else nothing
    has_begun = in_call & (start >= arrival[index]) if len(begin) else nothing
    rank = graph.trace.ranks[place].rank
    lacks = in_call & ~has_begun & (last[index] != rank) if len(begin) else nothing
    stands, copies_now = _inside(start, *still), _inside(start, *copying)
    is_for_copy = _inside(start, *still_for_copy)
    # a wait for a copy may be for an earlier copy; a wait for a collective may be for the copy that
    # its call needs
    by_copy = np.where(is_for_copy, copies_now | ~in_call, copies_now & ~in_call)
    state = np.where(_inside(start, *compute), RankActivity.COMPUTE, RankActivity.OTHER)
    state = np.where(stands, RankActivity.EXPOSED, state)
    state = np.where(stands & lacks, RankActivity.WAITING, state)
    state = np.where(stands & by_copy, RankActivity.COPYING, state)
    return Occupancy(
        rank=rank,
        start=start,
        end=end,
        phase=phases[np.searchsorted(borders, start, side="right") - 1],
        state=state.astype(np.int64),
        missing=np.where(lacks, last[index], NONE) if len(begin) else np.full(len(start), NONE),
        # a kernel of NCCL occupies the device from its start, even while ranks are missing
        communicates=in_call if is_on_device(graph.trace.ranks[place]) else has_begun,
        copies=copies_now,
    )


def _on_program(graph: EventGraph, computes: Ints) -> Ints:
    """The computations without delayed updates, which another thread computes concurrently."""
    if not graph.trace.manifest.config.get("delayed_update"):
        return computes
    own = []
    for node in computes.tolist():
        event = graph.event_of(node)
        own.append(event is not None and event.iteration == graph.iteration[node])
    return computes[np.array(own, np.bool_)] if own else computes


def _for_copies(graph: EventGraph, waits: Ints) -> Mask:
    """Which of the waits are for a copy."""
    if not np.any(graph.is_kind(NodeKind.COPY)):
        return np.zeros(len(waits), np.bool_)
    awaited = [graph.awaited_of(node) for node in waits.tolist()]
    return np.array([one is not None and one.kind is Kind.COPY for one in awaited], np.bool_)


def _phases(graph: EventGraph, own: Mask) -> tuple[Ints, Ints]:
    """The starts of the phases, and the end of the last one; and which phases they are."""
    marks = np.flatnonzero(own & graph.is_kind(NodeKind.PHASE))
    marks = marks[np.argsort(graph.start[marks], kind="stable")]
    borders, phases = graph.start[marks], graph.phase[marks].astype(np.int64)
    nodes = np.flatnonzero(own)
    end = int(graph.end[nodes].max(initial=0))
    if not len(marks):
        begin = int(graph.start[nodes].min(initial=end))
        outside = PHASE_CODES[Phase.OUTSIDE]
        return np.array([begin, end]), np.array([outside, outside])
    if len(marks) == 1 or phases[-1] != PHASE_CODES[Phase.OUTSIDE]:
        # the rank stopped within its last phase
        return np.append(borders, max(end, int(borders[-1]))), np.append(phases, phases[-1])
    return borders, phases


def _collectives(graph: EventGraph, own: Mask) -> tuple[Ints, Ints, Ints, Ints]:
    """This rank's calls, one after another: start, last arrival, end, and the last rank to
    arrive.
    """
    arrivals = np.full(len(graph.matching.collectives), NONE, np.int64)
    stragglers = arrivals.copy()
    matched = np.flatnonzero(graph.is_kind(NodeKind.MATCH))
    arrivals[graph.collective[matched]] = graph.start[matched]
    stragglers[graph.collective[matched]] = graph.rank[matched]
    calls = np.flatnonzero(own & graph.is_kind(NodeKind.CALL))
    calls = calls[np.lexsort((graph.end[calls], graph.start[calls]))]
    begin, over = graph.start[calls], graph.end[calls]
    arrival, last = begin.copy(), np.full(len(calls), NONE, np.int64)
    known = np.flatnonzero(graph.collective[calls] != NONE)
    place = graph.collective[calls[known]]
    # a rank whose call ended before the last one arrived did not wait for it
    needed = (arrivals[place] != NONE) & (arrivals[place] <= over[known])
    known, place = known[needed], place[needed]
    arrival[known], last[known] = np.maximum(arrivals[place], begin[known]), stragglers[place]
    # calls that overlap in time, on several threads: each begins at the end of the previous ones
    before = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(over)[:-1]])[
        : len(over)
    ]
    begin = np.maximum(begin, before)
    over = np.maximum(over, begin)
    return begin, np.clip(arrival, begin, over), over, last


def _disjoint(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The same time as ordered intervals that do not overlap."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    begins = np.concatenate([[True], start[1:] > end[:-1]])[: len(start)]
    ends = np.concatenate([begins[1:], [True]])[: len(start)]
    return start[begins], end[ends]


def _inside(times: Ints, start: Ints, end: Ints) -> Mask:
    """Whether each time is within one of the intervals."""
    if not len(start):
        return np.zeros(len(times), np.bool_)
    place = np.searchsorted(start, times, side="right") - 1
    return (place >= 0) & (times < end[np.maximum(place, 0)])
