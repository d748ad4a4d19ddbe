"""The contents of every rank, as sets of shards; and the legal operations on them.

A unit has one shard per rank of the run. Each method of `Holdings` is an action of a ZeRO
iteration; a violation of its laws (using a shard that is not present, adding a gradient twice) is
an `IllegalFrame` that names the rank, the shard, and the reason. A gradient is identified by the
set of ranks whose gradients are summed in it: it is reduced if it has all of them.

Source for the states of each stage: Rajbhandari et al., "ZeRO" (arXiv 1910.02054), section 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from zerosim.analysis.frames.away import OffloadedShards
from zerosim.analysis.frames.layout import Band, Place, ShardLayout
from zerosim.base.tiers import Tier
from zerosim.schema.memory import Role

Summed = frozenset[int]
"""The ranks whose gradients have been summed."""


class IllegalFrame(ValueError):
    """The trace contains an action that is illegal in an iteration of its stage."""


class ShardState(IntEnum):
    """The state of one shard on a rank."""

    ABSENT = 0
    KEPT = 1
    """Kept between steps."""
    GATHERED = 2
    """Another rank's shard, present only temporarily."""
    ARRIVING = 3
    """In flight to this rank."""
    PARTIAL = 4
    """This rank's local gradient, not yet reduced."""
    SUMMED = 5
    """A sum of gradients of several ranks, not of all."""
    REDUCED = 6
    """The sum of all ranks."""
    STALE = 7
    """Present with a previous value: a parameter that its owner has updated, an applied
    gradient.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The part of a unit in one bucket: the same columns of each shard.

    Attributes:
        index: among the pieces of its unit.
    """

    unit: str
    index: int


@dataclass(slots=True)
class Holdings:
    """The contents of every rank at one moment.

    Attributes:
        parameters: by rank and unit, the shards on the device with their current value.
        stale: the same, with the value from before the update.
        gradients: by rank, unit and piece, the ranks in the sum of each shard; the whole gradient
            made by backward.
        reduced: the same, the shards whose complete sum this rank keeps.
        moments: by rank and unit, the shards with momentum and variance.
        applied: the ranks and units whose gradient has been applied and is no longer needed.
        growing: the ranks and units with a private gradient that later micro-steps add to.
        unreduced: by rank and unit, the pieces of the whole gradient that remain to be reduced.
        offloaded: by rank and unit, the pieces of the newest gradient that have left the device.
        secondary: by rank and unit, the shards kept for backward besides its own.
        away: the contents of host and disk.
        arriving: shards in flight: rank, unit, role, shard, target tier.
    """

    layout: ShardLayout
    parameters: dict[Place, set[int]] = field(default_factory=dict)
    stale: dict[Place, set[int]] = field(default_factory=dict)
    gradients: dict[tuple[int, Piece], dict[int, Summed]] = field(default_factory=dict)
    reduced: dict[tuple[int, Piece], set[int]] = field(default_factory=dict)
    moments: dict[Place, set[int]] = field(default_factory=dict)
    applied: set[Place] = field(default_factory=set)
    growing: set[Place] = field(default_factory=set)
    unreduced: dict[Place, set[Piece]] = field(default_factory=dict)
    offloaded: dict[Place, set[Piece]] = field(default_factory=dict)
    secondary: dict[Place, set[int]] = field(default_factory=dict)
    away: OffloadedShards = field(init=False)
    arriving: set[tuple[int, str, Role, int, Tier]] = field(default_factory=set)

    def __post_init__(self) -> None:
        layout = self.layout
        self.away = OffloadedShards(layout)
        for rank in layout.ranks:
            for unit, trainable in layout.trainable.items():
                persists = unit in layout.divided.persists
                there = layout.computes if persists else layout.on_device
                self.parameters[rank, unit] = set(there(rank, unit))
                self.stale[rank, unit] = set()
                has_moments = (
                    trainable and not layout.first_update and not layout.config.offloads_optimizer
                )
                self.moments[rank, unit] = set(layout.own(rank, unit) if has_moments else ())
                if trainable and layout.keeps_gradients:
                    self.applied.add((rank, unit))

    # ------------------------------------------------------------------------- parameters

    def require_parameters(self, rank: int, unit: str, shards: Iterable[int], why: str) -> None:
        """Raise unless a rank has these shards with their current value."""
        held = self.parameters[rank, unit]
        for shard in shards:
            if shard not in held:
                state = "holds only in its pre-update state"
                if shard not in self.stale[rank, unit]:
                    state = "does not hold"
                where = " on its device" if self.layout.is_away else ""
                raise IllegalFrame(
                    f"rank {rank} {why} shard {shard} of {unit}, which it {state}{where}"
                )

    def gathered(self, rank: int, unit: str, shard: int) -> None:
        """A shard of parameters has arrived."""
        self.parameters[rank, unit].add(shard)
        self.stale[rank, unit].discard(shard)

    def free_parameters(self, rank: int, unit: str) -> bool:
        """Free gathered parameters (stage 3); returns whether there were any."""
        held, kept = self.parameters[rank, unit], set(self.layout.on_device(rank, unit))
        had_more = not held <= kept
        held &= kept
        return had_more

    def compute(self, rank: int, unit: str) -> None:
        """Begin to compute with a unit, which needs all shards of the computation."""
        self.require_parameters(rank, unit, self.layout.computes(rank, unit), "computes with")

    # -------------------------------------------------------------------------- gradients

    def pieces(self, unit: str) -> Iterable[Piece]:
        """All pieces of a unit."""
        for index in range(self.layout.num_pieces.get(unit, 1)):
            yield Piece(unit=unit, index=index)

    def make_gradient(self, rank: int, unit: str) -> None:
        """Backward of a unit ended: this rank has its local gradient of it.

        Add to an existing gradient: in later micro-steps, or for a unit that is used twice.
        """
        self.applied.discard((rank, unit))
        self.offloaded[rank, unit] = set()
        self.unreduced[rank, unit] = set(self.pieces(unit))
        for piece in self.pieces(unit):
            whole = self.gradients.setdefault((rank, piece), {})
            for shard in self.layout.makes(rank, unit):
                whole.setdefault(shard, frozenset([rank]))

    def is_reduced_in_part(self, rank: int, unit: str) -> bool:
        """Whether a bucket has reduced a piece of a gradient, and another is pending."""
        left = self.unreduced.get((rank, unit))
        return bool(left) and left != set(self.pieces(unit))

    def summed(self, rank: int, piece: Piece, shard: int, why: str) -> Summed:
        """The ranks whose gradients are in a rank's copy of a shard."""
        whole = self.gradients.get((rank, piece), {})
        if shard not in whole:
            raise IllegalFrame(
                f"rank {rank} {why} the gradient of shard {shard} of {piece.unit}, which it does "
                "not hold"
            )
        return whole[shard]

    def check_add(self, rank: int, piece: Piece, shard: int, arriving: Summed) -> None:
        """Raise if an arriving sum contains a gradient that is already in the rank's own sum."""
        twice = self.summed(rank, piece, shard, "adds to") & arriving
        if twice:
            raise IllegalFrame(
                f"rank {rank} reduces shard {shard} of {piece.unit} twice: the gradient of rank "
                f"{min(twice)} is in its own sum and in the one that arrives"
            )

    def add(self, rank: int, piece: Piece, shard: int, arriving: Summed) -> None:
        """A sum has arrived and is added to the rank's own sum."""
        self.check_add(rank, piece, shard, arriving)
        self.gradients[rank, piece][shard] |= arriving

    def keep_sum(self, rank: int, piece: Piece, shard: int, arriving: Summed) -> None:
        """A complete sum has arrived and replaces the rank's own sum."""
        self.require_whole(rank, piece, shard, arriving, "keeps")
        self.gradients[rank, piece][shard] = arriving

    def require_whole(self, rank: int, piece: Piece, shard: int, sum_: Summed, why: str) -> None:
        """Raise unless a sum has all ranks that make it complete."""
        missing = set(self.layout.among(rank, piece.unit)) - sum_
        if missing:
            raise IllegalFrame(
                f"rank {rank} {why} shard {shard} of {piece.unit} as reduced, but the gradient of "
                f"rank {min(missing)} is not in it"
            )

    def finish_reduction(self, rank: int, pieces: Iterable[Piece]) -> None:
        """A bucket is reduced on a rank: stages 2 and 3 keep their own shard and free the rest."""
        for piece in pieces:
            own = self.layout.own(rank, piece.unit)
            for shard in own:
                sum_ = self.summed(rank, piece, shard, "finishes")
                self.require_whole(rank, piece, shard, sum_, "finishes")
            left = self.unreduced.get((rank, piece.unit), set())
            left.discard(piece)
            if self.layout.divided.gradients:
                self.reduced.setdefault((rank, piece), set()).update(own)
                if not left:
                    self._free_gradient(rank, piece.unit)

    def scatter(self, rank: int, pieces: Iterable[Piece]) -> None:
        """A bucket is summed over some ranks and its rest freed."""
        for piece in pieces:
            whole = self.gradients.get((rank, piece), {})
            for shard in set(whole).difference(self.layout.own(rank, piece.unit)):
                del whole[shard]

    def _free_gradient(self, rank: int, unit: str) -> None:
        for piece in self.pieces(unit):
            self.gradients.pop((rank, piece), None)

    def update(self, rank: int, unit: str) -> None:
        """Begin to update a unit: the rows to update need the sum of all ranks."""
        if self.layout.config.offloads_optimizer:
            self._require_on_host(rank, unit)
            return
        if unit in self.layout.divided.summed_late:
            return
        for piece in self.pieces(unit):
            reduced = self.reduced.get((rank, piece), set())
            for shard in self.layout.own(rank, unit):
                if shard not in reduced:
                    sum_ = self.summed(rank, piece, shard, "updates with")
                    self.require_whole(rank, piece, shard, sum_, "applies")

    def updated(self, rank: int, unit: str) -> None:
        """A unit is updated: its own rows are new; copies of other owners' rows are stale."""
        own = set(self.layout.own(rank, unit))
        if self.layout.config.offloads_optimizer:
            self._updated_on_host(rank, unit, own)
            return
        self.moments[rank, unit] |= own
        self.outdate(rank, unit, but=own)
        if self.layout.is_away:
            self.gathered(rank, unit, rank)
            spot = (rank, unit, Role.PARAMETERS, self.layout.config.offload_param.tier)
            self.away.outdate(spot)
        self.applied.add((rank, unit))

    def outdate(self, rank: int, unit: str, but: set[int]) -> None:
        """Mark parameters on the device as stale, except for some."""
        old = self.parameters[rank, unit] - but
        self.stale[rank, unit] |= old
        self.parameters[rank, unit] -= old

    def _require_on_host(self, rank: int, unit: str) -> None:
        spot = (rank, unit, Role.GRADIENTS, Tier.HOST)
        left = set(self.pieces(unit)) - self.offloaded.get((rank, unit), set())
        if not self.away.has(spot, [rank]) or (left and not self.layout.config.delayed_update):
            raise IllegalFrame(
                f"rank {rank} updates {unit} on its host with a gradient that has not left the "
                "device"
            )
        for role in self.away.made_states():
            if not self.away.has((rank, unit, role, Tier.HOST), [rank]):
                raise IllegalFrame(
                    f"rank {rank} updates {unit} on its host, where it does not hold the {role}"
                )

    def _updated_on_host(self, rank: int, unit: str, own: set[int]) -> None:
        """The host has the new value; the device and the disk have the previous one."""
        layout, away = self.layout, self.away
        for role in away.states_there():
            if layout.config.offload_optimizer.tier is Tier.DISK:
                away.outdate((rank, unit, role, Tier.DISK))
            away.put((rank, unit, role, Tier.HOST), own)
        if not layout.config.delayed_update or not self.offloaded.get((rank, unit)):
            away.outdate((rank, unit, Role.GRADIENTS, Tier.HOST))
        if layout.config.offload_param.tier is Tier.DISK:
            away.outdate((rank, unit, Role.PARAMETERS, Tier.DISK))
        if layout.is_away and not layout.config.has_owners:
            away.put((rank, unit, Role.PARAMETERS, Tier.HOST), own)
        elif layout.is_away:
            away.outdate((rank, unit, Role.PARAMETERS, layout.config.offload_param.tier))
        if not layout.config.delayed_update:
            self.outdate(rank, unit, but=set())
            self.applied.add((rank, unit))

    def end_update(self, rank: int) -> None:
        """The iteration's gradients are no longer needed; stages 2 and 3 free them."""
        if self.layout.divided.frees_gradients:
            for store in (self.gradients, self.reduced):
                for place in [place for place in store if place[0] == rank]:
                    del store[place]

    # ------------------------------------------------------------------------------ cells

    def cell(self, rank: int, band: Band, unit: str, shard: int) -> ShardState:
        """The state of one shard of one unit in one role and tier on a rank."""
        if (rank, unit, band.role, shard, band.tier) in self.arriving:
            return ShardState.ARRIVING
        if band.tier is not Tier.DEVICE:
            return self._cell_away(rank, band, unit, shard)
        return self._cell_on_device(rank, band.role, unit, shard)

    def _cell_on_device(self, rank: int, role: Role, unit: str, shard: int) -> ShardState:
        if role is Role.PARAMETERS:
            return self._parameter_cell(rank, unit, shard)
        if role is Role.SECONDARY:
            is_kept = shard in self.secondary.get((rank, unit), ())
            return ShardState.GATHERED if is_kept else ShardState.ABSENT
        if not self.layout.trainable[unit]:
            return ShardState.ABSENT
        if role is Role.GRADIENTS:
            return self._gradient_cell(rank, unit, shard)
        is_master = role is Role.MASTER
        kept = set(self.layout.own(rank, unit)) if is_master else self.moments[rank, unit]
        return ShardState.KEPT if shard in kept else ShardState.ABSENT

    def _cell_away(self, rank: int, band: Band, unit: str, shard: int) -> ShardState:
        spot = (rank, unit, *band)
        if self.away.has(spot, [shard]):
            if band.role is Role.GRADIENTS:
                return ShardState.REDUCED
            return ShardState.KEPT if self.away.stays(*band) else ShardState.GATHERED
        return ShardState.STALE if self.away.is_old(spot, [shard]) else ShardState.ABSENT

    def _parameter_cell(self, rank: int, unit: str, shard: int) -> ShardState:
        if shard in self.parameters[rank, unit]:
            is_own = shard in self.layout.on_device(rank, unit)
            return ShardState.KEPT if is_own else ShardState.GATHERED
        return ShardState.STALE if shard in self.stale[rank, unit] else ShardState.ABSENT

    def _gradient_cell(self, rank: int, unit: str, shard: int) -> ShardState:
        divided = self.layout.divided
        if (rank, unit) in self.applied and not divided.frees_gradients:
            left = self.layout.own if divided.gradients else self.layout.makes
            is_there = shard in left(rank, unit)
            return ShardState.STALE if is_there else ShardState.ABSENT
        least = ShardState.PARTIAL if (rank, unit) in self.growing else ShardState.REDUCED
        for piece in self.pieces(unit):
            whole = self.gradients.get((rank, piece))
            if whole is None:
                if shard in self.reduced.get((rank, piece), ()):
                    continue
                return ShardState.ABSENT
            if shard not in whole:
                return ShardState.ABSENT
            sum_ = whole[shard]
            if not sum_ >= set(self.layout.among(rank, unit)):
                state = ShardState.SUMMED if len(sum_) > 1 else ShardState.PARTIAL
                least = min(least, state)
        return least
