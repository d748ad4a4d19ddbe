"""What every rank holds, as sets of shards; and what may happen to them.

A unit has one shard for each rank of the run. Each method of `Holdings` is something that a ZeRO
iteration does; what would be against its laws (using a shard that is not held, adding a gradient
twice) is an `IllegalFrame` that says which rank, which shard, and why. A gradient is known by the
set of ranks whose gradients have been added in it: reduced is what holds all of them.

Source of what each stage keeps: Rajbhandari et al., "ZeRO" (arXiv 1910.02054), section 5.
Imports the standard library and zerosim's L0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from zerosim.memory import Role

Place = tuple[int, str]
"""A rank and a unit."""
Summed = frozenset[int]
"""The ranks whose gradients have been added up."""


class IllegalFrame(ValueError):
    """The trace does what no iteration of its stage may do."""


class Holding(IntEnum):
    """What a rank has of one shard."""

    ABSENT = 0
    KEPT = 1
    """Kept from step to step."""
    GATHERED = 2
    """Another rank's, here only for now."""
    ARRIVING = 3
    """On its way to this rank."""
    PARTIAL = 4
    """This rank's own gradient, not yet reduced."""
    SUMMED = 5
    """A sum of several ranks' gradients, not of all."""
    REDUCED = 6
    """The sum of all ranks."""
    STALE = 7
    """Still there, but of before: a parameter that its owner has updated, a gradient applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one bucket takes of a unit: the same columns of each shard.

    Attributes:
        index: among the pieces of its unit.
    """

    unit: str
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What decides who holds what.

    Attributes:
        ranks: those that are in the trace; the run may have more.
        num_ranks: of the run, N: also the number of shards of a unit.
        trainable: by unit, in the order of forward.
        num_pieces: by unit, into how many pieces the buckets cut it.
        states: the model states that there are, in order.
        first_update: True in the iteration whose update makes momentum and variance.
        keeps_gradients: True if gradient buffers are there from the iteration before.
    """

    stage: int
    ranks: tuple[int, ...]
    num_ranks: int
    trainable: dict[str, bool]
    num_pieces: dict[str, int]
    states: tuple[Role, ...]
    first_update: bool
    keeps_gradients: bool

    @property
    def shards(self) -> range:
        """Of every unit."""
        return range(self.num_ranks)

    def own(self, rank: int, first_stage: int) -> range:
        """The shards that a rank keeps of what is partitioned from `first_stage` on."""
        return range(rank, rank + 1) if self.stage >= first_stage else self.shards


@dataclass(slots=True)
class Holdings:
    """What every rank holds at one moment.

    Attributes:
        parameters: by rank and unit, the shards with their present value.
        stale: likewise, those with the value of before the update.
        gradients: by rank, unit and piece, for each shard which ranks are in the sum; the whole
            gradient that backward made.
        reduced: likewise, the shards of which this rank keeps the sum of all ranks.
        moments: by rank and unit, the shards with momentum and variance.
        applied: the ranks and units whose gradient has been applied and is of no use any more.
        unreduced: by rank and unit, the pieces of the whole gradient that are to be reduced.
        arriving: shards on their way: rank, unit, role, shard.
    """

    layout: Layout
    parameters: dict[Place, set[int]] = field(default_factory=dict)
    stale: dict[Place, set[int]] = field(default_factory=dict)
    gradients: dict[tuple[int, Piece], dict[int, Summed]] = field(default_factory=dict)
    reduced: dict[tuple[int, Piece], set[int]] = field(default_factory=dict)
    moments: dict[Place, set[int]] = field(default_factory=dict)
    applied: set[Place] = field(default_factory=set)
    unreduced: dict[Place, set[Piece]] = field(default_factory=dict)
    arriving: set[tuple[int, str, Role, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        layout = self.layout
        for rank in layout.ranks:
            for unit, trainable in layout.trainable.items():
                self.parameters[rank, unit] = set(layout.own(rank, 3))
                self.stale[rank, unit] = set()
                has_moments = trainable and not layout.first_update
                self.moments[rank, unit] = set(layout.own(rank, 1) if has_moments else ())
                if trainable and layout.keeps_gradients:
                    self.applied.add((rank, unit))

    # ------------------------------------------------------------------------- parameters

    def require_parameters(self, rank: int, unit: str, shards: Iterable[int], why: str) -> None:
        """Raise unless a rank holds these shards with their present value."""
        held = self.parameters[rank, unit]
        for shard in shards:
            if shard not in held:
                state = "holds only as it was before the update"
                if shard not in self.stale[rank, unit]:
                    state = "does not hold"
                raise IllegalFrame(f"rank {rank} {why} shard {shard} of {unit}, which it {state}")

    def gathered(self, rank: int, unit: str, shard: int) -> None:
        """A shard of parameters has arrived."""
        self.parameters[rank, unit].add(shard)
        self.stale[rank, unit].discard(shard)

    def free_parameters(self, rank: int, unit: str) -> None:
        """Give back what was gathered (stage 3)."""
        self.parameters[rank, unit].intersection_update(self.layout.own(rank, 3))

    def compute(self, rank: int, unit: str) -> None:
        """Begin to compute with a unit: needs all of its shards."""
        self.require_parameters(rank, unit, self.layout.shards, "computes with")

    # -------------------------------------------------------------------------- gradients

    def pieces(self, unit: str) -> Iterable[Piece]:
        """All pieces of a unit."""
        for index in range(self.layout.num_pieces.get(unit, 1)):
            yield Piece(unit=unit, index=index)

    def make_gradient(self, rank: int, unit: str) -> None:
        """Backward of a unit is over: this rank has its own gradient of it.

        A gradient that is there already is added to: micro-steps, or a unit that is used twice.
        """
        self.applied.discard((rank, unit))
        self.unreduced[rank, unit] = set(self.pieces(unit))
        for piece in self.pieces(unit):
            whole = self.gradients.setdefault((rank, piece), {})
            for shard in self.layout.shards:
                whole.setdefault(shard, frozenset([rank]))

    def summed(self, rank: int, piece: Piece, shard: int, why: str) -> Summed:
        """Which ranks' gradients are in what a rank has of a shard."""
        whole = self.gradients.get((rank, piece), {})
        if shard not in whole:
            raise IllegalFrame(
                f"rank {rank} {why} the gradient of shard {shard} of {piece.unit}, which it does "
                "not hold"
            )
        return whole[shard]

    def check_add(self, rank: int, piece: Piece, shard: int, arriving: Summed) -> None:
        """Raise if a sum that arrives holds what is here already."""
        twice = self.summed(rank, piece, shard, "adds to") & arriving
        if twice:
            raise IllegalFrame(
                f"rank {rank} reduces shard {shard} of {piece.unit} twice: the gradient of rank "
                f"{min(twice)} is in its own sum and in the one that arrives"
            )

    def add(self, rank: int, piece: Piece, shard: int, arriving: Summed) -> None:
        """A sum has arrived and is added to the own one."""
        self.check_add(rank, piece, shard, arriving)
        self.gradients[rank, piece][shard] |= arriving

    def keep_sum(self, rank: int, piece: Piece, shard: int, arriving: Summed) -> None:
        """A finished sum has arrived and replaces the own one (the second half of all-reduce)."""
        self.require_whole(rank, piece, shard, arriving, "keeps")
        self.gradients[rank, piece][shard] = arriving

    def require_whole(self, rank: int, piece: Piece, shard: int, sum_: Summed, why: str) -> None:
        """Raise unless a sum is of all ranks."""
        missing = set(self.layout.shards) - sum_
        if missing:
            raise IllegalFrame(
                f"rank {rank} {why} shard {shard} of {piece.unit} as reduced, but the gradient of "
                f"rank {min(missing)} is not in it"
            )

    def finish_reduction(self, rank: int, pieces: Iterable[Piece]) -> None:
        """A bucket is reduced on a rank: stage 2 and 3 keep the own shard and free the rest."""
        own = self.layout.own(rank, 1)
        for piece in pieces:
            for shard in own:
                sum_ = self.summed(rank, piece, shard, "finishes")
                self.require_whole(rank, piece, shard, sum_, "finishes")
            left = self.unreduced.get((rank, piece.unit), set())
            left.discard(piece)
            if self.layout.stage >= 2:
                self.reduced.setdefault((rank, piece), set()).update(own)
                if not left:
                    self._free_gradient(rank, piece.unit)

    def _free_gradient(self, rank: int, unit: str) -> None:
        for piece in self.pieces(unit):
            self.gradients.pop((rank, piece), None)

    def update(self, rank: int, unit: str) -> None:
        """Begin to update a unit: the rows to update need the sum of all ranks."""
        for piece in self.pieces(unit):
            reduced = self.reduced.get((rank, piece), set())
            for shard in self.layout.own(rank, 1):
                if shard not in reduced:
                    sum_ = self.summed(rank, piece, shard, "updates with")
                    self.require_whole(rank, piece, shard, sum_, "applies")

    def updated(self, rank: int, unit: str) -> None:
        """A unit is updated: the own rows are new; what others own is now of before."""
        own = set(self.layout.own(rank, 1))
        self.moments[rank, unit] |= own
        old = self.parameters[rank, unit] - own
        self.stale[rank, unit] |= old
        self.parameters[rank, unit] -= old
        self.applied.add((rank, unit))

    def end_update(self, rank: int) -> None:
        """The iteration's gradients are used up: stages 2 and 3 free them."""
        if self.layout.stage >= 2:
            for store in (self.gradients, self.reduced):
                for place in [place for place in store if place[0] == rank]:
                    del store[place]

    # ------------------------------------------------------------------------------ cells

    def cell(self, rank: int, role: Role, unit: str, shard: int) -> Holding:
        """What a rank has of one shard of one unit in one role."""
        if (rank, unit, role, shard) in self.arriving:
            return Holding.ARRIVING
        if role is Role.PARAMETERS:
            return self._parameter_cell(rank, unit, shard)
        if not self.layout.trainable[unit]:
            return Holding.ABSENT
        if role is Role.GRADIENTS:
            return self._gradient_cell(rank, unit, shard)
        kept = self.moments[rank, unit]
        if role is Role.MASTER:
            kept = set(self.layout.own(rank, 1))
        return Holding.KEPT if shard in kept else Holding.ABSENT

    def _parameter_cell(self, rank: int, unit: str, shard: int) -> Holding:
        if shard in self.parameters[rank, unit]:
            is_own = shard in self.layout.own(rank, 3)
            return Holding.KEPT if is_own else Holding.GATHERED
        return Holding.STALE if shard in self.stale[rank, unit] else Holding.ABSENT

    def _gradient_cell(self, rank: int, unit: str, shard: int) -> Holding:
        if (rank, unit) in self.applied and self.layout.stage < 2:
            return Holding.STALE
        least = Holding.REDUCED
        for piece in self.pieces(unit):
            whole = self.gradients.get((rank, piece))
            if whole is None:
                if shard in self.reduced.get((rank, piece), ()):
                    continue
                return Holding.ABSENT
            sum_ = whole.get(shard, frozenset())
            if len(sum_) < self.layout.num_ranks:
                state = Holding.SUMMED if len(sum_) > 1 else Holding.PARTIAL
                least = min(least, state)
        return least
