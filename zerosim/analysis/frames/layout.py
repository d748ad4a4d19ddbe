"""What decides who holds what, and where: the stage, the tiers, the groups that ranks form.

Imports the standard library and zerosim's L0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from zerosim.memory import Role
from zerosim.tiers import Tier


class Band(NamedTuple):
    """One state of a rank in one of its tiers."""

    role: Role
    tier: Tier = Tier.DEVICE


OPTIMIZER_STATES = (Role.MASTER, Role.MOMENTUM, Role.VARIANCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What decides who holds what.

    Attributes:
        ranks: those that are in the trace; the run may have more.
        num_ranks: of the run, N: also the number of shards of a unit.
        trainable: by unit, in the order of forward.
        num_pieces: by unit, into how many pieces the buckets cut it.
        states: the states that there are, tier by tier, in order.
        first_update: True in the iteration whose update makes momentum and variance.
        keeps_gradients: True if gradient buffers are there from the iteration before.
        states_tier: where the optimizer's states are kept; it works on the host if they are not
            on the device.
        parameters_tier: where a rank's own parameters are kept.
        owners: the unit at position i is kept whole by rank i % N.
        delayed: the update of an iteration is computed during the next one.
        secondary: so many neighbours keep all parameters among them for backward; 1 for none.
    """

    stage: int
    ranks: tuple[int, ...]
    num_ranks: int
    trainable: dict[str, bool]
    num_pieces: dict[str, int]
    states: tuple[Band, ...]
    first_update: bool
    keeps_gradients: bool
    states_tier: Tier = Tier.DEVICE
    parameters_tier: Tier = Tier.DEVICE
    owners: bool = False
    delayed: bool = False
    secondary: int = 1

    @property
    def shards(self) -> range:
        """Of every unit."""
        return range(self.num_ranks)

    @property
    def updates_on_host(self) -> bool:
        """The optimizer works on the host."""
        return self.states_tier is not Tier.DEVICE

    @property
    def is_away(self) -> bool:
        """Own parameters are kept beside the device."""
        return self.parameters_tier is not Tier.DEVICE

    def own(self, rank: int, first_stage: int) -> range:
        """The shards that a rank keeps of what is partitioned from `first_stage` on."""
        return range(rank, rank + 1) if self.stage >= first_stage else self.shards

    def kept(self, rank: int, unit: str) -> range:
        """The shards of a unit's parameters that a rank keeps, wherever that is."""
        if self.owners:
            position = list(self.trainable).index(unit)
            return self.shards if position % self.num_ranks == rank else range(0)
        return self.own(rank, 3)

    def on_device(self, rank: int) -> range:
        """Those that stay on the device from iteration to iteration."""
        return range(0) if self.is_away else self.own(rank, 3)

    def part(self, part: int, num_parts: int) -> range:
        """The shards of one of several equal parts of a unit; none where a part cuts shards."""
        if num_parts < 1 or self.num_ranks % num_parts:
            return range(0)
        size = self.num_ranks // num_parts
        return range(part * size, (part + 1) * size)

    def secondary_part(self, rank: int) -> range:
        """The shards that a rank keeps beside its own for backward (ZeRO++, hpZ)."""
        return self.part(rank % self.secondary, self.secondary)
