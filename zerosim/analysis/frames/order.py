"""The order of steps: by the last rank's start, but consistent with each rank's own order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from zerosim.analysis.frames.step import Message, Step
from zerosim.schema.events import Event, Kind, Phase, Purpose


@dataclass(slots=True)
class StepPart:
    """A step under construction: the part of each rank.

    Attributes:
        ends: by rank, its end there.
        units: its units.
        is_message: sent and received outside of any collective.
        is_late: the update of the previous iteration, on a separate thread.
    """

    kind: Kind
    phase: Phase
    micro_step: int
    collective: int | None = None
    hop: int | None = None
    events: dict[int, Event] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    end: int = 0
    messages: list[Message] = field(default_factory=list)
    is_over: bool = True
    ends: dict[int, int] = field(default_factory=dict)
    units: tuple[str, ...] = ()
    is_late: bool = False
    is_message: bool = False
    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def last_start(self) -> int:
        """The start on the last rank."""
        return max(self.starts.values())

    @property
    def lane(self) -> str:
        """Its thread: the program's own, or that of the collectives."""
        if self.kind in (Kind.MARK, Kind.COMPUTE):
            return "late updates" if self.is_late else "program"
        return "collectives"

    def add(self, event: Event, start: int, end: int) -> None:
        """The part of one rank."""
        self.events.setdefault(event.rank, event)
        self.span(event.rank, start, end)

    def span(self, rank: int, start: int, end: int) -> None:
        """The start on one rank."""
        self.starts[rank] = min(start, self.starts.get(rank, start))
        self.over(rank, max(start, end))

    def over_on(self, rank: int) -> int:
        """The end on one rank; for a message, its start.

        A rank that waits for one continues before its end has been observed.
        """
        return self.starts[rank] if self.is_message else self.ends[rank]

    def over(self, rank: int, end: int) -> None:
        """The end on one rank, as far as known."""
        self.ends[rank] = max(end, self.ends.get(rank, end))
        self.end = max(self.end, end)


def in_order(parts: list[StepPart]) -> list[StepPart]:
    """Sorted by the last rank's start, but consistent with the order of every rank's thread.

    Not all ranks take part in every step (a message has two ranks), so the last begin alone could
    swap two steps. Copies have threads of their own, as many as there are workers: a copy follows
    earlier actions on its unit, and precedes later ones.
    """
    lanes: dict[tuple[int, str], list[int]] = defaultdict(list)
    for place, part in enumerate(parts):
        for rank in part.starts:
            if part.kind is not Kind.COPY:
                lanes[rank, part.lane].append(place)
    missing = [0] * len(parts)
    followers: list[list[int]] = [[] for _ in parts]
    for (rank, _), places in lanes.items():
        begins = {place: (parts[place].starts[rank], _turn(parts[place])) for place in places}
        places.sort(key=begins.__getitem__)
        for before, after in _one_by_one(parts, places):
            followers[before].append(after)
            missing[after] += 1
    for before, after in (*_around_copies(parts), *_after_marks(parts)):
        followers[before].append(after)
        missing[after] += 1
    ready = [_key(parts[place], place) for place, count in enumerate(missing) if not count]
    heapify(ready)
    done: list[StepPart] = []
    while ready:
        place = heappop(ready)[-1]
        done.append(parts[place])
        for after in followers[place]:
            missing[after] -= 1
            if not missing[after]:
                heappush(ready, _key(parts[after], after))
    # ranks that called in different orders form a cycle: these steps are shown in order of start
    rest = [_key(parts[place], place) for place, count in enumerate(missing) if count]
    return done + [parts[key[-1]] for key in sorted(rest)]


def _one_by_one(parts: list[StepPart], places: list[int]) -> Iterator[tuple[int, int]]:
    """A step of a thread follows the earlier ones; not a message in flight.

    A sender, or a ready receiver, continues: the message comes when the other end is ready.
    """
    before = None
    for place in places:
        if before is not None:
            yield before, place
        if not parts[place].is_message:
            before = place


def begin_when_gathered(parts: list[StepPart]) -> None:
    """Move the start of calls that precede the arrival of their parameters to that arrival.

    PyTorch's FSDP gathers a module's parameters from within its call.
    """
    gathers: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for part in parts:
        for rank, event in part.events.items():
            if part.kind is Kind.COLLECTIVE and event.purpose is Purpose.GATHER_PARAMETERS:
                gathers[rank, event.unit].append((part.starts[rank], part.ends[rank]))
    for part in parts:
        for rank, event in part.events.items():
            if part.kind is not Kind.COMPUTE:
                continue
            start, end = part.starts[rank], part.ends[rank]
            inside = [over for begun, over in gathers[rank, event.unit] if start <= begun < end]
            part.starts[rank] = min(end, max(inside, default=start))


def _around_copies(parts: list[StepPart]) -> Iterator[tuple[int, int]]:
    """Predecessors and successors of a copy, by unit, if they are such on all ranks.

    Actions of two ranks in different orders do not depend on each other.
    """
    if not any(part.kind is Kind.COPY for part in parts):
        return
    about: dict[tuple[int, str], list[int]] = defaultdict(list)
    for place, part in enumerate(parts):
        for rank in part.starts:
            for unit in part.units:
                about[rank, unit].append(place)
    for (rank, _), places in about.items():
        by_start = sorted(places, key=lambda place: parts[place].starts[rank])
        by_end = sorted(places, key=lambda place: parts[place].over_on(rank))
        starts = [parts[place].starts[rank] for place in by_start]
        ends = [parts[place].over_on(rank) for place in by_end]
        for place in places:
            if parts[place].kind is not Kind.COPY:
                continue
            before = bisect_right(ends, parts[place].starts[rank]) - 1
            after = bisect_left(starts, parts[place].ends[rank])
            around = [
                (by_end[before], place) if before >= 0 else (place, place),
                (place, by_start[after]) if after < len(by_start) else (place, place),
            ]
            for first, second in around:
                if first != second and _is_before(parts[first], parts[second]):
                    yield first, second


def _is_before(first: StepPart, second: StepPart) -> bool:
    """Whether one ends before the other begins, on every rank that does both."""
    return all(
        first.over_on(rank) <= start
        for rank, start in second.starts.items()
        if rank in first.starts
    )


def _after_marks(parts: list[StepPart]) -> Iterator[tuple[int, int]]:
    """A step of some ranks follows the start of the phase on all of them."""
    marks: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, part in enumerate(parts):
        if part.kind is Kind.MARK:
            for rank, start in part.starts.items():
                marks[rank].append((start, place))
    for of_rank in marks.values():
        of_rank.sort()
    for place, part in enumerate(parts):
        if part.lane == "program" or len(part.starts) == len(marks):
            continue
        for rank, start in part.starts.items():
            before = bisect_right(marks[rank], (start, len(parts))) - 1
            if before >= 0:
                yield marks[rank][before][1], place


def _key(part: StepPart, place: int) -> tuple[int, int, int]:
    return part.last_start, _turn(part), place


def _turn(part: StepPart) -> int:
    return _TURN[part.kind] + (part.hop or 0)


_TURN = {
    Kind.MARK: 0,
    Kind.COMPUTE: 1,
    Kind.COPY: 2,
    Kind.COLLECTIVE: 3,
    Kind.TRANSFER: 4,
}
"""Order of steps that begin at the same moment: the hops of a collective continue it."""


def with_ends(found: list[Step], times: list[int]) -> Iterable[Step]:
    """Set the end of each step; a hop ends when the next one of its ring begins."""
    next_hop: dict[int, int] = {}
    ends = [0] * len(found)
    is_last = [False] * len(found)
    for place in range(len(found) - 1, -1, -1):
        step = found[place]
        until = max(place, bisect_left(times, step.end_ns) - 1)
        if not step.is_over:
            until = len(found) - 1
        if step.kind is Kind.COLLECTIVE:
            is_last[place] = True
        if step.kind is Kind.TRANSFER and step.collective is not None:
            following = next_hop.get(step.collective)
            is_last[place] = following is None
            if following is not None:
                until = min(until, following - 1)
            next_hop[step.collective] = place
        ends[place] = until
    for place, step in enumerate(found):
        yield replace(step, until=ends[place], is_last_hop=is_last[place])
