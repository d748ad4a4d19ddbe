"""The contents of every rank off the device: on the host and on the disk.

Updated shards are there with their new value; a copy from before the update is old, in any tier.
Source for the tiers: Rajbhandari et al., "ZeRO-Infinity" (arXiv 2104.07857), section 5, and Ren et
al., "ZeRO-Offload" (arXiv 2101.06840), section 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from zerosim.analysis.frames.layout import ShardLayout
from zerosim.base.tiers import Tier
from zerosim.schema.memory import OPTIMIZER_STATES, Role

Spot = tuple[int, str, Role, Tier]
"""A rank, a unit, a role, a tier off the device."""


@dataclass(slots=True)
class OffloadedShards:
    """The contents of host and disk.

    Attributes:
        held: the shards with the current value.
        old: the shards with a previous value.
    """

    layout: ShardLayout
    held: dict[Spot, set[int]] = field(default_factory=dict)
    old: dict[Spot, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        layout = self.layout
        for rank in layout.ranks:
            for unit, trainable in layout.trainable.items():
                if layout.is_away:
                    spot = (rank, unit, Role.PARAMETERS, layout.config.offload_param.tier)
                    self.held[spot] = set(layout.kept(rank, unit))
                if not trainable or not layout.config.offloads_optimizer:
                    continue
                for role in self.made_states():
                    self.held[rank, unit, role, layout.config.offload_optimizer.tier] = {rank}
                if layout.keeps_gradients:
                    gradients = self.held if layout.config.delayed_update else self.old
                    gradients[rank, unit, Role.GRADIENTS, Tier.HOST] = {rank}

    def states_there(self) -> tuple[Role, ...]:
        """The optimizer states that are kept in their tier."""
        layout = self.layout
        there = [
            band.role for band in layout.states if band.tier is layout.config.offload_optimizer.tier
        ]
        return tuple(role for role in OPTIMIZER_STATES if role in there)

    def made_states(self) -> tuple[Role, ...]:
        """The optimizer states from before the update: on a disk all of them, initially zero."""
        is_first = (
            self.layout.first_update and self.layout.config.offload_optimizer.tier is Tier.HOST
        )
        return tuple(r for r in self.states_there() if r is Role.MASTER or not is_first)

    def has(self, spot: Spot, shards: Iterable[int]) -> bool:
        """Whether shards are there with their current value."""
        return set(shards) <= self.held.get(spot, set())

    def is_old(self, spot: Spot, shards: Iterable[int]) -> bool:
        """Whether any of these shards is there with its previous value."""
        return bool(set(shards) & self.old.get(spot, set()))

    def put(self, spot: Spot, shards: Iterable[int]) -> None:
        """Shards have arrived, with their current value."""
        came = set(shards)
        self.held.setdefault(spot, set()).update(came)
        self.old.setdefault(spot, set()).difference_update(came)

    def outdate(self, spot: Spot) -> None:
        """The contents were changed elsewhere, or are no longer needed."""
        gone = self.held.pop(spot, set())
        self.old.setdefault(spot, set()).update(gone)

    def drop(self, spot: Spot) -> None:
        """The tier has been emptied."""
        self.held.pop(spot, None)
        self.old.pop(spot, None)

    def stays(self, role: Role, tier: Tier) -> bool:
        """Whether a role is kept in a tier, instead of only passing through it."""
        layout = self.layout
        if role is Role.PARAMETERS:
            return tier is layout.config.offload_param.tier
        return role is Role.GRADIENTS or tier is layout.config.offload_optimizer.tier
