"""The rules of each stage: what a step does to what the ranks hold when it begins and when it ends.

Imports the standard library, zerosim's L0 and its siblings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from zerosim.analysis.frames.holdings import Holding, Holdings, Layout, Piece, Summed
from zerosim.analysis.frames.step import Step
from zerosim.events import Event, Kind, Op, Phase, Purpose
from zerosim.manifest import BucketLayout
from zerosim.memory import Role

Change = tuple[int, Holding]
"""A cell's number, and what it becomes."""


def cell_number(layout: Layout, place: int, role: Role, unit: int, shard: int) -> int:
    """Number of a cell: rank by rank, state by state, unit by unit, shard by shard.

    Args:
        place: of the rank in `layout.ranks`.
        unit: position among the units.
    """
    state = layout.states.index(role)
    row = (place * len(layout.states) + state) * len(layout.trainable) + unit
    return row * layout.num_ranks + shard


@dataclass(slots=True)
class _Flight:
    """A shard of a gradient under way: what its sender had summed when it sent it."""

    target: int
    piece: Piece
    shard: int
    sum: Summed
    is_finished: bool


class Rules:
    """Plays steps on the holdings, and keeps track of the cells that change."""

    def __init__(
        self, layout: Layout, buckets: Sequence[BucketLayout], steps: Sequence[Step]
    ) -> None:
        """Begin with what the layout says."""
        self.layout = layout
        self.holdings = Holdings(layout)
        self.units = {unit: index for index, unit in enumerate(layout.trainable)}
        self.places = {rank: place for place, rank in enumerate(layout.ranks)}
        self.pieces = pieces_of(buckets)
        self.cells: list[Holding] = []
        self.touched: set[tuple[int, Role, str, int]] = set()
        self.flights: dict[int, list[_Flight]] = {}
        self.left = Counter(
            _of_backward(event)
            for step in steps
            if (event := step.event) is not None and _is_backward(event)
        )

    def all_cells(self) -> tuple[Holding, ...]:
        """Every cell as it is now."""
        layout = self.layout
        return tuple(
            self.holdings.cell(rank, role, unit, shard)
            for rank in layout.ranks
            for role in layout.states
            for unit in self.units
            for shard in layout.shards
        )

    def changed(self) -> Iterator[Change]:
        """The cells that are not what they were."""
        numbers = sorted(
            (cell_number(self.layout, self.places[rank], role, self.units[unit], shard), place)
            for place in self.touched
            for rank, role, unit, shard in (place,)
            if role in self.layout.states
        )
        self.touched.clear()
        for number, place in numbers:
            holding = self.holdings.cell(*place)
            if holding is not self.cells[number]:
                self.cells[number] = holding
                yield number, holding

    def touch(self, rank: int, role: Role, unit: str, shards: Iterable[int] | None = None) -> None:
        """Cells that may have changed."""
        every = self.layout.shards if shards is None else shards
        self.touched.update((rank, role, unit, shard) for shard in every)

    # ---------------------------------------------------------------------- begin and end

    def begin(self, step: Step) -> None:
        """A step begins."""
        event = step.event
        if step.kind is Kind.MARK:
            self._begin_phase(step.phase)
        elif event is None:
            return
        elif step.kind is Kind.COMPUTE and event.unit in self.units:
            for rank in step.events:
                if event.phase is Phase.UPDATE:
                    self.holdings.update(rank, event.unit)
                else:
                    self.holdings.compute(rank, event.unit)
        elif step.kind in (Kind.TRANSFER, Kind.COLLECTIVE):
            if event.purpose is Purpose.GATHER_PARAMETERS and event.unit in self.units:
                self._begin_gather(step, event.unit)
            elif event.purpose is Purpose.REDUCE_GRADIENTS:
                self._begin_reduction(step, event)

    def end(self, step: Step) -> None:
        """A step is over."""
        event = step.event
        if event is None:
            return
        if step.kind is Kind.COMPUTE and event.unit in self.units:
            self._end_computation(step, event)
        elif step.kind in (Kind.TRANSFER, Kind.COLLECTIVE):
            if event.purpose is Purpose.GATHER_PARAMETERS and event.unit in self.units:
                self._end_gather(step, event.unit)
            elif event.purpose is Purpose.REDUCE_GRADIENTS:
                self._end_reduction(step, event)

    def _begin_phase(self, phase: Phase) -> None:
        """What was gathered and not used is dropped; after the update the gradients are."""
        for rank in self.layout.ranks:
            for unit in self.units:
                if self.layout.stage == 3:
                    self.holdings.free_parameters(rank, unit)
                    self.touch(rank, Role.PARAMETERS, unit)
                if phase is Phase.OUTSIDE:
                    self.touch(rank, Role.GRADIENTS, unit)
            if phase is Phase.OUTSIDE:
                self.holdings.end_update(rank)

    def _end_computation(self, step: Step, event: Event) -> None:
        unit, is_stage_3 = event.unit, self.layout.stage == 3
        makes_gradient = False
        if _is_backward(event):
            # a unit that is recomputed, or used twice, has its gradient after the last time
            self.left[_of_backward(event)] -= 1
            makes_gradient = not self.left[_of_backward(event)]
        for rank in step.events:
            if event.phase is Phase.UPDATE:
                self.holdings.updated(rank, unit)
                for role in self.layout.states:
                    self.touch(rank, role, unit)
                continue
            if is_stage_3 and (makes_gradient or event.phase is Phase.FORWARD):
                self.holdings.free_parameters(rank, unit)
                self.touch(rank, Role.PARAMETERS, unit)
            if makes_gradient and self.layout.trainable[unit]:
                self.holdings.make_gradient(rank, unit)
                self.touch(rank, Role.GRADIENTS, unit)

    # -------------------------------------------------------------------------- gathering

    def _arrivals(self, step: Step) -> Iterator[tuple[int | None, int, int]]:
        """Sender (None if every owner sends its own), receiver and shard, for ranks that are here.

        Of a native call nothing is known but its result: each rank receives all others' shards.
        """
        if step.kind is Kind.TRANSFER:
            for message in step.messages:
                if message.target in self.places and message.shard in self.layout.shards:
                    assert message.shard is not None
                    yield message.source, message.target, message.shard
            return
        for rank in step.events:
            for shard in self.layout.shards:
                if shard != rank:
                    yield None, rank, shard

    def _begin_gather(self, step: Step, unit: str) -> None:
        for source, target, shard in self._arrivals(step):
            sender = shard if source is None else source
            if sender in self.places:
                self.holdings.require_parameters(sender, unit, [shard], "sends")
            self.holdings.arriving.add((target, unit, Role.PARAMETERS, shard))
            self.touch(target, Role.PARAMETERS, unit, [shard])

    def _end_gather(self, step: Step, unit: str) -> None:
        for _, target, shard in self._arrivals(step):
            self.holdings.arriving.discard((target, unit, Role.PARAMETERS, shard))
            self.holdings.gathered(target, unit, shard)
            self.touch(target, Role.PARAMETERS, unit, [shard])

    # --------------------------------------------------------------------------- reducing

    def _begin_reduction(self, step: Step, event: Event) -> None:
        flights: list[_Flight] = []
        for piece in self.pieces.get(event.unit, ()):
            if step.kind is Kind.COLLECTIVE:
                flights += self._native_flights(step, event, piece)
            else:
                flights += self._ring_flights(step, event, piece)
        for one in flights:
            if not one.is_finished:
                self.holdings.check_add(one.target, one.piece, one.shard, one.sum)
            place = (one.target, one.piece.unit, Role.GRADIENTS, one.shard)
            self.holdings.arriving.add(place)
            self.touch(one.target, Role.GRADIENTS, one.piece.unit, [one.shard])
        self.flights[id(step)] = flights

    def _ring_flights(self, step: Step, event: Event, piece: Piece) -> Iterator[_Flight]:
        size, hop = self.layout.num_ranks, step.hop or 0
        is_finished = event.op is Op.ALL_REDUCE and hop >= size - 1
        seen = set()
        for source, target, shard in self._arrivals(step):
            if (target, shard) in seen or source is None:  # chunks of one message
                continue
            seen.add((target, shard))
            if source in self.places:
                sum_ = self.holdings.summed(source, piece, shard, "sends")
            else:  # a rank that is not in the trace: what a ring makes it send
                num_summed = size if is_finished else hop + 1
                sum_ = frozenset((source - index) % size for index in range(num_summed))
            if is_finished:
                self.holdings.require_whole(source, piece, shard, sum_, "passes on")
            yield _Flight(target, piece, shard, sum_, is_finished)

    def _native_flights(self, step: Step, event: Event, piece: Piece) -> Iterator[_Flight]:
        everyone = frozenset(self.layout.shards)
        for rank in step.events:
            is_scatter = event.op is Op.REDUCE_SCATTER
            for shard in range(rank, rank + 1) if is_scatter else self.layout.shards:
                own = self.holdings.summed(rank, piece, shard, "reduces")
                yield _Flight(rank, piece, shard, everyone - own, is_finished=False)

    def _end_reduction(self, step: Step, event: Event) -> None:
        for one in self.flights.pop(id(step), ()):
            place = (one.target, one.piece.unit, Role.GRADIENTS, one.shard)
            self.holdings.arriving.discard(place)
            if one.is_finished:
                self.holdings.keep_sum(one.target, one.piece, one.shard, one.sum)
            else:
                self.holdings.add(one.target, one.piece, one.shard, one.sum)
            self.touch(one.target, Role.GRADIENTS, one.piece.unit, [one.shard])
        if step.is_last_hop:
            for rank in step.events:
                pieces = self.pieces.get(event.unit, ())
                self.holdings.finish_reduction(rank, pieces)
                for piece in pieces:
                    self.touch(rank, Role.GRADIENTS, piece.unit)


def pieces_of(buckets: Sequence[BucketLayout]) -> dict[str, tuple[Piece, ...]]:
    """By bucket, the pieces of units that are reduced with it."""
    seen: Counter[str] = Counter()
    found: dict[str, list[Piece]] = defaultdict(list)
    for bucket in buckets:
        for segment in bucket.segments:
            found[bucket.name].append(Piece(unit=segment.unit, index=seen[segment.unit]))
            seen[segment.unit] += 1
    return {name: tuple(pieces) for name, pieces in found.items()}


def _is_backward(event: Event) -> bool:
    return event.kind is Kind.COMPUTE and event.phase is Phase.BACKWARD


def _of_backward(event: Event) -> tuple[int, str]:
    return event.micro_step, event.unit
