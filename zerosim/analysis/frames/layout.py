"""The inputs that determine which rank has which shards, and where: partitioning, tiers, groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zerosim.base.config import STAGES, EngineConfig
from zerosim.base.tiers import Tier
from zerosim.schema.events import Phase
from zerosim.schema.memory import Role

FROZEN = ".frozen"
"""The suffix of a module's name for its frozen parameters."""


class Band(NamedTuple):
    """One state of a rank in one of its tiers."""

    role: Role
    tier: Tier = Tier.DEVICE


Place = tuple[int, str]
"""A rank and a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardDuties:
    """The relation of one rank to one unit, as shards of it.

    Attributes:
        computes: the shards that it computes with; those that it does not keep are gathered.
        keeps: the shards whose parameters it keeps.
        updates: the shards whose optimizer states it keeps.
        makes: the shards for which it computes a gradient.
        among: the ranks whose gradients make up a complete sum.
    """

    computes: frozenset[int] = frozenset()
    keeps: frozenset[int] = frozenset()
    updates: frozenset[int] = frozenset()
    makes: frozenset[int] = frozenset()
    among: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The partitioning among ranks, and when gathered or reduced data is freed.

    Attributes:
        parameters, gradients, states: whether a rank keeps only its own shards of them.
        owners: by unit, the rank that keeps its states (and gradient) whole, if units instead of
            shards are divided.
        stays: units whose gathered parameters stay from forward to backward.
        modules: by unit, the module for which it is gathered; by default itself.
        calls_within: gathers and reductions are called within computations: parameters are present
            by the end of one, and its gradient when it is reduced.
        frees_gradients: partitioned gradients are freed by the update, not by the next step.
        num_shards: shards of every unit; 0: as many as ranks.
        parts: the relation of each rank to each unit, unless shard r of every unit belongs to
            rank r: some ranks keep copies, or have no part of a unit.
        persists: units that stay gathered between iterations.
        frees_last: units whose gathered parameters backward frees only after the last micro-step.
        frees_for_next: a module's gathered parameters are freed when those of the next one arrive.
        summed_late: units whose gradients are summed by the optimizer, for itself alone.
    """

    parameters: bool
    gradients: bool
    states: bool
    owners: Mapping[str, int] = field(default_factory=dict)
    stays: frozenset[str] = frozenset()
    modules: Mapping[str, str] = field(default_factory=dict)
    calls_within: bool = False
    frees_gradients: bool = False
    num_shards: int = 0
    parts: Mapping[Place, ShardDuties] = field(default_factory=dict)
    persists: frozenset[str] = frozenset()
    frees_last: frozenset[str] = frozenset()
    frees_for_next: bool = False
    summed_late: frozenset[str] = frozenset()


_OF_STAGES = {
    stage: Division(
        parameters=stage >= 3, gradients=stage >= 2, states=stage >= 1, frees_gradients=stage >= 2
    )
    for stage in STAGES
}

Calls = tuple[tuple[str, ...], ...]
"""The units of the first call of a name, of the second, and so on; then from the start again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLayout:
    """The inputs that determine which rank has which shards.

    Attributes:
        config: the engine's; defaults for a program, whose `division` is complete.
        ranks: those in the trace; the run may have more.
        num_ranks: ranks of the run, N.
        trainable: by unit, in the order of forward.
        num_pieces: by unit, the number of pieces into which buckets split it.
        states: the states, tier by tier, in order.
        first_update: True in the iteration whose update creates momentum and variance.
        keeps_gradients: True if gradient buffers exist from the previous iteration.
        division: for a program; None for the engine, where the stage decides.
        computed: by the name of a computation, the units that it computes with; by default itself.
        gathered: by the name of a gather, the units of its calls; by default itself.
    """

    config: EngineConfig = field(default_factory=EngineConfig)
    ranks: tuple[int, ...]
    num_ranks: int
    trainable: dict[str, bool]
    num_pieces: dict[str, int]
    states: tuple[Band, ...]
    first_update: bool
    keeps_gradients: bool
    division: Division | None = None
    computed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    gathered: Mapping[str, Calls] = field(default_factory=dict)

    @property
    def divided(self) -> Division:
        """The partitioning among ranks."""
        return _OF_STAGES[self.config.stage] if self.division is None else self.division

    @property
    def shards(self) -> range:
        """Shards of every unit."""
        return range(self.divided.num_shards or self.num_ranks)

    @property
    def is_away(self) -> bool:
        """Whether the rank's own parameters are kept off the device."""
        return self.config.offload_param.tier is not Tier.DEVICE

    def computes(self, rank: int, unit: str) -> Collection[int]:
        """The shards of a unit that a rank computes with."""
        parts = self.divided.parts
        return parts[rank, unit].computes if parts else self.shards

    def makes(self, rank: int, unit: str) -> Collection[int]:
        """The shards of a unit for which a rank computes a gradient."""
        parts = self.divided.parts
        return parts[rank, unit].makes if parts else self.shards

    def among(self, rank: int, unit: str) -> Collection[int]:
        """The ranks whose gradients of a unit make up a complete sum."""
        parts = self.divided.parts
        return parts[rank, unit].among if parts else range(self.num_ranks)

    def own(self, rank: int, unit: str) -> Collection[int]:
        """The shards of a unit that a rank updates, and whose states it keeps."""
        divided = self.divided
        if divided.parts:
            return divided.parts[rank, unit].updates
        if divided.owners:
            return self.shards if divided.owners.get(unit) == rank else range(0)
        if self.config.owners_update:
            return self.kept(rank, unit)
        return range(rank, rank + 1) if divided.states else self.shards

    def kept(self, rank: int, unit: str) -> Collection[int]:
        """The shards of a unit's parameters that a rank keeps, in any tier."""
        if self.config.has_owners:
            position = list(self.trainable).index(unit)
            return self.shards if position % self.num_ranks == rank else range(0)
        if self.divided.parts:
            return self.divided.parts[rank, unit].keeps
        return range(rank, rank + 1) if self.divided.parameters else self.shards

    def on_device(self, rank: int, unit: str) -> Collection[int]:
        """The units that stay on the device between iterations."""
        return range(0) if self.is_away else self.kept(rank, unit)

    def frees(self, unit: str, phase: Phase) -> bool:
        """Whether gathered parameters of a unit are freed after its computation in a phase."""
        divided = self.divided
        if unit in divided.persists:
            return False
        return divided.parameters and not (phase is Phase.FORWARD and unit in divided.stays)

    def ends_with(self, unit: str, computation: str) -> bool:
        """Whether a unit is no longer needed after a computation."""
        module = self.divided.modules.get(unit, computation)
        return module == computation or module.startswith(f"{computation}.")

    def part(self, part: int, num_parts: int) -> range:
        """The shards of one of several equal parts of a unit; empty if a part splits shards."""
        if num_parts < 1 or self.num_ranks % num_parts:
            return range(0)
        size = self.num_ranks // num_parts
        return range(part * size, (part + 1) * size)

    def secondary_part(self, rank: int) -> range:
        """The shards that a rank keeps besides its own for backward (ZeRO++, hpZ)."""
        num_parts = self.config.secondary_partition
        return self.part(rank % num_parts, num_parts)
