"""Where a rank keeps its own row of a unit's parameters, and how it gets there and back.

    on the device       in place in stages 1 and 2; a shard of its own in stage 3
    on the host         copied to the device before a gather (ZeRO-Infinity)
    on a disk           read to the host first
    at one owner        who keeps all rows of a unit, where else each rank keeps one

The optimizer works on the device or on the host; what it has written goes home by `deliver`.
Source: Rajbhandari et al., "ZeRO-Infinity" (arXiv 2104.07857), sections 5.1 and 6.1.
Imports torch, zerosim's L0, collectives, device, offload and trace.labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from zerosim.collectives import Handle
from zerosim.collectives.executor import Done
from zerosim.config import Offload
from zerosim.engine.flat import FlatUnit
from zerosim.events import Purpose
from zerosim.memory import Role
from zerosim.offload.copies import host_tensor
from zerosim.tiers import Tier
from zerosim.trace import labels
from zerosim.trace.holdings import hold, let_go

if TYPE_CHECKING:
    from zerosim.engine.stage import Context

UP = (Tier.HOST, Tier.DEVICE)
DOWN = (Tier.DEVICE, Tier.HOST)


class Home:
    """Own rows on the device, where their unit is: what stages 1 and 2 have."""

    def __init__(self, context: Context) -> None:
        """Nothing is kept yet."""
        self._context = context
        self._on_host = context.config.offload_optimizer is not Offload.NONE
        self._written: dict[str, torch.Tensor] = {}

    def keep(self, flat: FlatUnit) -> None:
        """Take this rank's row of a unit that is complete on every rank."""

    def own(self, flat: FlatUnit) -> torch.Tensor:
        """This rank's row on the device."""
        return flat.rows[self._context.rank]

    def shared(self, flat: FlatUnit) -> list[torch.Tensor] | None:
        """The updated rows, if they lie in the tier where the optimizer works."""
        return None if self._on_host else [self.own(flat)]

    def written(self, flat: FlatUnit) -> list[torch.Tensor]:
        """Where the optimizer writes the new rows: where they are, or places on the host."""
        shared = self.shared(flat)
        if shared is not None:
            return shared
        if flat.name not in self._written:
            self._written[flat.name] = host_tensor(
                flat.flat, flat.unit.columns, Role.BUFFERS, flat.name
            )
        return [self._written[flat.name]]

    def fetch(self, flat: FlatUnit, row: torch.Tensor) -> Handle:
        """Copy the own row to `row`, on the device."""
        row.copy_(self.own(flat))
        return Done()

    def announce(self, units: Sequence[FlatUnit]) -> None:
        """These will be fetched soon, in this order."""

    def deliver(self, flat: FlatUnit) -> Handle:
        """The optimizer has written the new row: bring it home."""
        if not self._on_host:
            return Done()
        with labels.scope(unit=flat.name, purpose=Purpose.RETURN_PARAMETERS, tensors=(flat.name,)):
            return self._context.copies.copy(self.own(flat), self._written[flat.name], UP)

    def let_go(self) -> None:
        """The engine is closed."""
        for tensor in self._written.values():
            let_go(tensor)


class EveryRow(Home):
    """All rows, all of them updated here: stage 0."""

    def shared(self, flat: FlatUnit) -> list[torch.Tensor]:
        """All rows."""
        return list(flat.rows)


class DeviceHome(Home):
    """Stage 3: a shard on the device."""

    def __init__(self, context: Context) -> None:
        """See `Home`."""
        super().__init__(context)
        self._shards: dict[str, torch.Tensor] = {}

    def keep(self, flat: FlatUnit) -> None:
        """Give the own row a memory of its own, so that the unit's can be freed."""
        shard = flat.rows[self._context.rank].clone()
        hold(shard, Role.PARAMETERS, flat.name)
        self._shards[flat.name] = shard

    def own(self, flat: FlatUnit) -> torch.Tensor:
        """The shard."""
        return self._shards[flat.name]

    def let_go(self) -> None:
        """The engine is closed."""
        super().let_go()
        for shard in self._shards.values():
            let_go(shard)


class HostHome(Home):
    """Stage 3: a shard in the host's memory."""

    def __init__(self, context: Context) -> None:
        """See `Home`."""
        super().__init__(context)
        self._shards: dict[str, torch.Tensor] = {}

    def keep(self, flat: FlatUnit) -> None:
        """Copy the own row to the host."""
        row = flat.rows[self._context.rank]
        shard = host_tensor(row, row.numel(), Role.PARAMETERS, flat.name)
        self._shards[flat.name] = shard
        with labels.scope(unit=flat.name, purpose=Purpose.STORE_PARAMETERS):
            self._context.copies.copy(shard, row, DOWN).wait()

    def own(self, flat: FlatUnit) -> torch.Tensor:
        """The shard, on the host."""
        return self._shards[flat.name]

    def shared(self, flat: FlatUnit) -> list[torch.Tensor] | None:
        """The shard, if the optimizer works on the host."""
        return [self.own(flat)] if self._on_host else None

    def written(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The shard, or a place on the device."""
        return self.shared(flat) or [device_place(self._written, flat)]

    def fetch(self, flat: FlatUnit, row: torch.Tensor) -> Handle:
        """Copy the shard to the device."""
        with labels.scope(unit=flat.name, purpose=Purpose.FETCH_PARAMETERS, tensors=(flat.name,)):
            return self._context.copies.copy(row, self.own(flat), UP)

    def deliver(self, flat: FlatUnit) -> Handle:
        """Copy what was written on the device to the host."""
        if self._on_host:
            return Done()
        written = self._written.pop(flat.name)
        with labels.scope(unit=flat.name, purpose=Purpose.STORE_PARAMETERS, tensors=(flat.name,)):
            return self._context.copies.copy(self.own(flat), written, DOWN)

    def let_go(self) -> None:
        """The engine is closed."""
        for shard in self._shards.values():
            let_go(shard)


def device_place(places: dict[str, torch.Tensor], flat: FlatUnit) -> torch.Tensor:
    """A row on the device for the optimizer to write, until it is delivered."""
    if flat.name not in places:
        places[flat.name] = flat.flat.new_empty(flat.unit.columns)
        hold(places[flat.name], Role.BUFFERS, flat.name)
    return places[flat.name]


def make_home(context: Context) -> Home:
    """Where stage 3 is configured to keep a rank's own rows."""
    if context.config.offload_param is Offload.NONE:
        return DeviceHome(context)
    return HostHome(context)
