"""What decides who holds what, and where: what is divided, the tiers, the groups of ranks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zerosim.base.config import STAGES, EngineConfig
from zerosim.base.tiers import Tier
from zerosim.schema.events import Phase
from zerosim.schema.memory import Role

FROZEN = ".frozen"
"""What is added to a module's name for its parameters that are not trained."""


class Band(NamedTuple):
    """One state of a rank in one of its tiers."""

    role: Role
    tier: Tier = Tier.DEVICE


Place = tuple[int, str]
"""A rank and a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardDuties:
    """What one rank has to do with one unit, as shards of it.

    Attributes:
        computes: those that it computes with; what it does not keep of them is gathered.
        keeps: those of which it keeps the parameters.
        updates: those of which it keeps the optimizer's states.
        makes: those of which it makes a gradient.
        among: the ranks whose gradients make a whole sum.
    """

    computes: frozenset[int] = frozenset()
    keeps: frozenset[int] = frozenset()
    updates: frozenset[int] = frozenset()
    makes: frozenset[int] = frozenset()
    among: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """What is divided among ranks, and when what was gathered or reduced is freed.

    Attributes:
        parameters, gradients, states: whether a rank keeps only its own shards of them.
        owners: by unit, the rank that keeps its states (and gradient) whole, where units and not
            shards are divided.
        stays: units whose gathered parameters stay from forward to backward.
        modules: by unit, the module that it is gathered for; itself where none is named.
        calls_within: gathers and reductions are called from within computations: what is computed
            with is there by its end, and its gradient when it is reduced.
        frees_gradients: divided gradients are freed by the update, not by what follows it.
        num_shards: of every unit; 0: as many as ranks.
        parts: what each rank has to do with each unit, where shard r of all units is not simply
            rank r's: some ranks keep copies of what others keep, or have nothing to do with a unit.
        persists: units that are gathered from iteration to iteration.
        frees_last: units whose gathered parameters backward frees after the last micro-step alone.
        frees_for_next: what is gathered for a module is freed when that of the next one comes.
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
"""The units of the first call of a name, of the second; of later ones from the first on again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLayout:
    """What decides who holds what.

    Attributes:
        config: of the engine; its defaults for a program, which adds nothing to its `division`.
        ranks: those that are in the trace; the run may have more.
        num_ranks: of the run, N.
        trainable: by unit, in the order of forward.
        num_pieces: by unit, into how many pieces the buckets cut it.
        states: the states that there are, tier by tier, in order.
        first_update: True in the iteration whose update makes momentum and variance.
        keeps_gradients: True if gradient buffers are there from the iteration before.
        division: of a program; None for the engine, whose stage says it.
        computed: by the name of a computation, the units that it computes with; itself where none
            is named.
        gathered: by the name of a gather, the units of its calls; itself likewise.
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
        """What is divided among ranks."""
        return _OF_STAGES[self.config.stage] if self.division is None else self.division

    @property
    def shards(self) -> range:
        """Of every unit."""
        return range(self.divided.num_shards or self.num_ranks)

    @property
    def is_away(self) -> bool:
        """Own parameters are kept beside the device."""
        return self.config.offload_param.tier is not Tier.DEVICE

    def computes(self, rank: int, unit: str) -> Collection[int]:
        """The shards of a unit that a rank computes with."""
        parts = self.divided.parts
        return parts[rank, unit].computes if parts else self.shards

    def makes(self, rank: int, unit: str) -> Collection[int]:
        """The shards of a unit of which a rank makes a gradient."""
        parts = self.divided.parts
        return parts[rank, unit].makes if parts else self.shards

    def among(self, rank: int, unit: str) -> Collection[int]:
        """The ranks whose gradients of a unit make a whole sum."""
        parts = self.divided.parts
        return parts[rank, unit].among if parts else range(self.num_ranks)

    def own(self, rank: int, unit: str) -> Collection[int]:
        """The shards of a unit that a rank updates, and of which it keeps the states."""
        divided = self.divided
        if divided.parts:
            return divided.parts[rank, unit].updates
        if divided.owners:
            return self.shards if divided.owners.get(unit) == rank else range(0)
        if self.config.owners_update:
            return self.kept(rank, unit)
        return range(rank, rank + 1) if divided.states else self.shards

    def kept(self, rank: int, unit: str) -> Collection[int]:
        """The shards of a unit's parameters that a rank keeps, wherever that is."""
        if self.config.has_owners:
            position = list(self.trainable).index(unit)
            return self.shards if position % self.num_ranks == rank else range(0)
        if self.divided.parts:
            return self.divided.parts[rank, unit].keeps
        return range(rank, rank + 1) if self.divided.parameters else self.shards

    def on_device(self, rank: int, unit: str) -> Collection[int]:
        """Those of a unit that stay on the device from iteration to iteration."""
        return range(0) if self.is_away else self.kept(rank, unit)

    def frees(self, unit: str, phase: Phase) -> bool:
        """Whether gathered parameters of a unit are freed when it has been computed in a phase."""
        divided = self.divided
        if unit in divided.persists:
            return False
        return divided.parameters and not (phase is Phase.FORWARD and unit in divided.stays)

    def ends_with(self, unit: str, computation: str) -> bool:
        """Whether a unit is not needed any more when a computation is over."""
        module = self.divided.modules.get(unit, computation)
        return module == computation or module.startswith(f"{computation}.")

    def part(self, part: int, num_parts: int) -> range:
        """The shards of one of several equal parts of a unit; none where a part cuts shards."""
        if num_parts < 1 or self.num_ranks % num_parts:
            return range(0)
        size = self.num_ranks // num_parts
        return range(part * size, (part + 1) * size)

    def secondary_part(self, rank: int) -> range:
        """The shards that a rank keeps beside its own for backward (ZeRO++, hpZ)."""
        num_parts = self.config.secondary_partition
        return self.part(rank % num_parts, num_parts)
