"""The effect of a gradient reduction on the contents of the ranks: rings, native, all-to-all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from zerosim.analysis.frames.holdings import Piece, Summed
from zerosim.analysis.frames.layout import Band
from zerosim.analysis.frames.ledger import Ledger
from zerosim.analysis.frames.step import Step
from zerosim.schema.events import Event, Kind, Op
from zerosim.schema.manifest import BucketLayout
from zerosim.schema.memory import Role

_GRADIENTS = Band(Role.GRADIENTS)


@dataclass(slots=True)
class _Flight:
    """A shard of a gradient in flight: the ranks in the sender's sum when it was sent."""

    target: int
    piece: Piece
    shard: int
    sum: Summed
    is_finished: bool


class Reductions:
    """Gradients in flight between ranks."""

    def __init__(self, ledger: Ledger, buckets: Sequence[BucketLayout]) -> None:
        """Apply reductions to these holdings."""
        self._ledger = ledger
        self._pieces = pieces_of(buckets)
        self._flights: dict[int, list[_Flight]] = {}

    def units_of(self, name: str) -> tuple[str, ...]:
        """The units with elements in a bucket."""
        return tuple(dict.fromkeys(piece.unit for piece in self._pieces.get(name, ())))

    def reduces(self, unit: str) -> bool:
        """Whether a bucket has a part of a unit."""
        return any(piece.unit == unit for pieces in self._pieces.values() for piece in pieces)

    def begin(self, step: Step, event: Event) -> None:
        """Sums are sent; the sums to which they are added must not contain the same ranks."""
        flights: list[_Flight] = []
        for piece in self._pieces.get(event.unit, ()):
            if step.kind is Kind.COLLECTIVE or event.op is Op.ALL_TO_ALL:
                flights += self._native(step, event, piece)
            else:
                flights += self._of_ring(step, event, piece)
        for one in flights:
            if not one.is_finished:
                self._ledger.holdings.check_add(one.target, one.piece, one.shard, one.sum)
            self._ledger.announce(one.target, one.piece.unit, _GRADIENTS, [one.shard])
        self._flights[id(step)] = flights

    def end(self, step: Step, event: Event) -> None:
        """The sums are added, or kept as received."""
        holdings = self._ledger.holdings
        for one in self._flights.pop(id(step), ()):
            self._ledger.arrive(one.target, one.piece.unit, _GRADIENTS, [one.shard])
            if one.is_finished:
                holdings.keep_sum(one.target, one.piece, one.shard, one.sum)
            else:
                holdings.add(one.target, one.piece, one.shard, one.sum)
        if step.is_last_hop:
            for rank in step.events:
                pieces = self._pieces.get(event.unit, ())
                if self._is_last(step, rank, pieces):
                    holdings.finish_reduction(rank, pieces)
                elif event.op is Op.REDUCE_SCATTER:
                    holdings.scatter(rank, pieces)
                for piece in pieces:
                    self._ledger.touch(rank, Role.GRADIENTS, piece.unit)

    def _is_last(self, step: Step, rank: int, pieces: Iterable[Piece]) -> bool:
        """Whether no gradients of other nodes or other replicas are still missing."""
        layout, group = self._ledger.layout, set(self._ledger.group_of(step, rank))
        for piece in pieces:
            among = set(layout.among(rank, piece.unit))
            for shard in () if among <= group else layout.own(rank, piece.unit):
                if not self._ledger.holdings.summed(rank, piece, shard, "reduces") >= among:
                    return False
        return True

    def _of_ring(self, step: Step, event: Event, piece: Piece) -> Iterator[_Flight]:
        layout, holdings = self._ledger.layout, self._ledger.holdings
        size, hop = layout.num_ranks, step.hop or 0
        is_finished = event.op is Op.ALL_REDUCE and hop >= size - 1
        seen = set()
        for source, target, shard in self._carried(step, event):
            if target not in self._ledger.places or (target, shard) in seen:
                continue  # another chunk of one message
            seen.add((target, shard))
            if source in self._ledger.places:
                sum_ = holdings.summed(source, piece, shard, "sends")
            else:  # a rank outside of the trace: the part that a ring sends
                num_summed = size if is_finished else hop + 1
                sum_ = frozenset((source - index) % size for index in range(num_summed))
            if is_finished:
                holdings.require_whole(source, piece, shard, sum_, "passes on")
            yield _Flight(target, piece, shard, sum_, is_finished)

    def _carried(self, step: Step, event: Event) -> Iterator[tuple[int, int, int]]:
        """Sender, receiver and shard; on the way to an owner a chunk has all shards."""
        shards = self._ledger.layout.shards
        for one in step.messages:
            if event.op is Op.REDUCE:
                yield from ((one.source, one.target, shard) for shard in shards)
            elif one.shard is not None and one.shard in shards:
                yield one.source, one.target, one.shard

    def _native(self, step: Step, event: Event, piece: Piece) -> Iterator[_Flight]:
        """Each rank of a group receives the others' contributions to the shards that it keeps."""
        holdings = self._ledger.holdings
        for rank in step.events:
            group = self._ledger.group_of(step, rank)
            for shard in self._wanted(rank, piece, event, group):
                own = holdings.summed(rank, piece, shard, "reduces")
                arriving: set[int] = set()
                for source in group:
                    if source in self._ledger.places:
                        arriving |= holdings.summed(source, piece, shard, "sends")
                    else:
                        arriving.add(source)
                yield _Flight(rank, piece, shard, frozenset(arriving) - own, is_finished=False)

    def _wanted(
        self, rank: int, piece: Piece, event: Event, group: tuple[int, ...]
    ) -> Iterable[int]:
        """The shards that a rank continues with after a call."""
        if event.op is Op.ALL_TO_ALL:
            return self._goes_on_with(rank, group)
        if event.op is Op.ALL_REDUCE:
            # the shards left to it by a reduction within other ranks
            whole = self._ledger.holdings.gradients.get((rank, piece), {})
            return tuple(whole) or self._ledger.layout.makes(rank, piece.unit)
        return self._ledger.layout.own(rank, piece.unit)

    def _goes_on_with(self, rank: int, group: tuple[int, ...]) -> Iterator[int]:
        """The shards that a rank adds up.

        Neighbours: the shards of all ranks at their index in the nodes; ranks at one index of all
        nodes: each its own.
        """
        is_node = group == tuple(range(group[0], group[0] + len(group)))
        for shard in self._ledger.layout.shards:
            if shard == rank or (is_node and shard % len(group) == rank % len(group)):
                yield shard


def pieces_of(buckets: Sequence[BucketLayout]) -> dict[str, tuple[Piece, ...]]:
    """By bucket, the pieces of units that are reduced with it."""
    seen: Counter[str] = Counter()
    found: dict[str, list[Piece]] = defaultdict(list)
    for bucket in buckets:
        for segment in bucket.segments:
            found[bucket.name].append(Piece(unit=segment.unit, index=seen[segment.unit]))
            seen[segment.unit] += 1
    return {name: tuple(pieces) for name, pieces in found.items()}
