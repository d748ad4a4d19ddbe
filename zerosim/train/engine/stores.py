"""The stores of the parameter rows that a rank updates, and the copies to them.

    ParameterStore    in their unit, on the device: stages 0 to 2
    ShardStore        the rank's own shard on the device: stage 3
    OffloadedStore    a shard on the host or on a disk: stage 3 of ZeRO-Infinity

Stores of whole units are in `owners`.

The optimizer works on the device or on the host; `deliver` brings its results to the store.
Source: Rajbhandari et al., "ZeRO-Infinity" (arXiv 2104.07857), section 5.1.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from zerosim.schema.events import Purpose
from zerosim.schema.memory import Role
from zerosim.trace.holdings import hold, release
from zerosim.train.collectives import Handle
from zerosim.train.collectives.executor import Done
from zerosim.train.engine.context import Context
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.engine.tier_stores import TO_DEVICE, DiskStore, HostStore, TierStore
from zerosim.train.offload.copies import host_tensor


class ParameterStore:
    """Updated rows on the device, in their unit."""

    def __init__(self, context: Context) -> None:
        """Create an empty store."""
        self._context = context
        self.updates_on_host = context.config.offloads_optimizer
        self.places: dict[str, torch.Tensor] = {}

    def keep(self, flat: FlatUnit, *, resumes: bool) -> bool:
        """Take this rank's rows of a unit that is complete on every rank.

        Args:
            resumes: whether to continue with the rows of an earlier run, if possible.

        Returns:
            True if the rows are those of an earlier run.
        """
        return False

    def updated(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The updated rows, on the device."""
        return [flat.rows[row] for row in self._context.updated_rows(flat)]

    def shared(self, flat: FlatUnit) -> list[torch.Tensor] | None:
        """The updated rows, if they are in the tier of the optimizer."""
        return None if self.updates_on_host else self.updated(flat)

    def written(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The optimizer's destination for new rows: their place, or a buffer on the host."""
        return self.shared(flat) or [self.host_place(flat)]

    def fetch(self, flat: FlatUnit) -> Handle:
        """Copy this rank's rows into the unit's memory on the device."""
        return Done()

    def prefetch(self, units: Sequence[FlatUnit]) -> None:
        """Announce units that will be fetched soon, in this order, and no others."""

    def deliver(self, flat: FlatUnit) -> Handle:
        """The optimizer has written the new row: bring it to its store."""
        return self.bring_back(flat, *self.updated(flat)) if self.updates_on_host else Done()

    def release(self) -> None:
        """The engine is closed."""
        for tensor in self.places.values():
            release(tensor)

    def bring_back(self, flat: FlatUnit, target: torch.Tensor) -> Handle:
        """Copy the result on the host to the device."""
        with flat.labelled(Purpose.RETURN_PARAMETERS):
            return self._context.copies.copy(target, self.places[flat.name], TO_DEVICE)

    def host_place(self, flat: FlatUnit) -> torch.Tensor:
        """A row on the host for the optimizer to write."""
        if flat.name not in self.places:
            row = host_tensor(flat.flat, flat.unit.columns, Role.BUFFERS, flat.name)
            self.places[flat.name] = row
        return self.places[flat.name]

    def device_place(self, flat: FlatUnit) -> torch.Tensor:
        """A row on the device for the optimizer to write, until it is delivered."""
        if flat.name not in self.places:
            row = flat.flat.new_empty(flat.unit.columns)
            hold(row, Role.BUFFERS, flat.name)
            self.places[flat.name] = row
        return self.places[flat.name]


class ShardStore(ParameterStore):
    """A shard on the device."""

    def __init__(self, context: Context) -> None:
        """Create an empty store."""
        super().__init__(context)
        self._shards: dict[str, torch.Tensor] = {}

    def keep(self, flat: FlatUnit, *, resumes: bool) -> bool:
        """Copy this rank's row to separate memory, so that the unit's can be freed."""
        shard = flat.rows[self._context.rank].clone()
        hold(shard, Role.PARAMETERS, flat.name)
        self._shards[flat.name] = shard
        return False

    def updated(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The shard."""
        return [self._shards[flat.name]]

    def fetch(self, flat: FlatUnit) -> Handle:
        """Copy the shard."""
        flat.rows[self._context.rank].copy_(self._shards[flat.name])
        return Done()

    def release(self) -> None:
        """The engine is closed."""
        super().release()
        for shard in self._shards.values():
            release(shard)


class OffloadedStore(ParameterStore):
    """A shard on the host or on a disk."""

    def __init__(self, context: Context, tier: TierStore) -> None:
        """Keep shards in this tier."""
        super().__init__(context)
        self._tier = tier

    def keep(self, flat: FlatUnit, *, resumes: bool) -> bool:
        """Store this rank's row in the tier, unless it is there."""
        if resumes and isinstance(self._tier, DiskStore):
            self._tier.find(flat, flat.unit.columns)
            return True
        self._tier.put(flat, flat.rows[self._context.rank]).wait()
        return False

    def shared(self, flat: FlatUnit) -> list[torch.Tensor] | None:
        """The shard, if it and the optimizer are on the host."""
        if self.updates_on_host and isinstance(self._tier, HostStore):
            return [self._tier.kept[flat.name]]
        return None

    def written(self, flat: FlatUnit) -> list[torch.Tensor]:
        """A row for the optimizer to write, in the tier or on the device."""
        if self.updates_on_host:
            return [self._tier.place(flat, flat.unit.columns)]
        return [self.device_place(flat)]

    def fetch(self, flat: FlatUnit) -> Handle:
        """Copy the shard to the device."""
        return self._tier.get(flat, flat.rows[self._context.rank])

    def prefetch(self, units: Sequence[FlatUnit]) -> None:
        """Start reading the shards, if the tier supports it."""
        self._tier.prefetch(units)

    def deliver(self, flat: FlatUnit) -> Handle:
        """Store the result in the tier."""
        if not self.updates_on_host:
            return self._tier.put(flat, self.places.pop(flat.name))
        self._tier.placed(flat)
        return Done()

    def release(self) -> None:
        """The engine is closed."""
        super().release()
        self._tier.release()
