"""Where a rank keeps its own row of a unit's parameters, and how it gets there and back.

    Home          in its unit, on the device: stages 1 and 2; `EveryRow` all rows: stage 0
    DeviceHome    a shard of its own on the device: stage 3
    ShelfHome     a shard on the host or on a disk: stage 3 of ZeRO-Infinity

The optimizer works on the device or on the host; what it has written goes home by `deliver`.
Source: Rajbhandari et al., "ZeRO-Infinity" (arXiv 2104.07857), section 5.1.1.
Imports torch, zerosim's L0, collectives, offload and trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from zerosim.collectives import Handle
from zerosim.collectives.executor import Done
from zerosim.config import Offload
from zerosim.engine.flat import FlatUnit
from zerosim.engine.shelves import UP, DiskShelf, HostShelf, Shelf
from zerosim.events import Purpose
from zerosim.memory import Role
from zerosim.offload.copies import host_tensor
from zerosim.trace import labels
from zerosim.trace.holdings import hold, let_go

if TYPE_CHECKING:
    from zerosim.engine.stage import Context


class Home:
    """Own rows on the device, where their unit is."""

    def __init__(self, context: Context) -> None:
        """Nothing is kept yet."""
        self._context = context
        self.updates_on_host = context.config.offload_optimizer is not Offload.NONE
        self.places: dict[str, torch.Tensor] = {}

    def keep(self, flat: FlatUnit, *, resumes: bool) -> bool:  # noqa: ARG002 - nothing is taken
        """Take what this rank keeps of a unit that is complete on every rank.

        Args:
            resumes: go on with what an earlier run kept, where that is possible.

        Returns:
            True if what is kept is an earlier run's.
        """
        return False

    def own(self, flat: FlatUnit) -> torch.Tensor:
        """This rank's row, on the device."""
        return flat.rows[self._context.rank]

    def shared(self, flat: FlatUnit) -> list[torch.Tensor] | None:
        """The updated rows, if they lie in the tier where the optimizer works."""
        return None if self.updates_on_host else [self.own(flat)]

    def written(self, flat: FlatUnit) -> list[torch.Tensor]:
        """Where the optimizer writes the new rows: where they are, or a place on the host."""
        return self.shared(flat) or [self.host_place(flat)]

    def fetch(self, flat: FlatUnit) -> Handle:
        """Have what this rank keeps in the unit's memory on the device."""
        flat.rows[self._context.rank].copy_(self.own(flat))
        return Done()

    def announce(self, units: Sequence[FlatUnit]) -> None:
        """These will be fetched soon, in this order, and no others."""

    def deliver(self, flat: FlatUnit) -> Handle:
        """The optimizer has written the new row: bring it home."""
        return self.bring_back(flat, self.own(flat)) if self.updates_on_host else Done()

    def let_go(self) -> None:
        """The engine is closed."""
        for tensor in self.places.values():
            let_go(tensor)

    def bring_back(self, flat: FlatUnit, target: torch.Tensor) -> Handle:
        """Copy what was written on the host to the device."""
        with labels.scope(unit=flat.name, purpose=Purpose.RETURN_PARAMETERS, tensors=(flat.name,)):
            return self._context.copies.copy(target, self.places[flat.name], UP)

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


class EveryRow(Home):
    """All rows, all of them updated here."""

    def shared(self, flat: FlatUnit) -> list[torch.Tensor]:
        """All rows."""
        return list(flat.rows)


class DeviceHome(Home):
    """A shard on the device."""

    def __init__(self, context: Context) -> None:
        """See `Home`."""
        super().__init__(context)
        self._shards: dict[str, torch.Tensor] = {}

    def keep(self, flat: FlatUnit, *, resumes: bool) -> bool:  # noqa: ARG002 - memory is new
        """Give the own row a memory of its own, so that the unit's can be freed."""
        shard = flat.rows[self._context.rank].clone()
        hold(shard, Role.PARAMETERS, flat.name)
        self._shards[flat.name] = shard
        return False

    def own(self, flat: FlatUnit) -> torch.Tensor:
        """The shard."""
        return self._shards[flat.name]

    def let_go(self) -> None:
        """The engine is closed."""
        super().let_go()
        for shard in self._shards.values():
            let_go(shard)


class ShelfHome(Home):
    """A shard on the host or on a disk."""

    def __init__(self, context: Context, shelf: Shelf) -> None:
        """Keep shards on this shelf."""
        super().__init__(context)
        self._shelf = shelf

    def keep(self, flat: FlatUnit, *, resumes: bool) -> bool:
        """Put the own row on the shelf, unless it is there."""
        if resumes and isinstance(self._shelf, DiskShelf):
            self._shelf.find(flat, flat.unit.columns)
            return True
        self._shelf.put(flat, flat.rows[self._context.rank]).wait()
        return False

    def shared(self, flat: FlatUnit) -> list[torch.Tensor] | None:
        """The shard, if it and the optimizer are on the host."""
        if self.updates_on_host and isinstance(self._shelf, HostShelf):
            return [self._shelf.kept[flat.name]]
        return None

    def written(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The place on the shelf, or a place on the device."""
        if self.updates_on_host:
            return [self._shelf.place(flat, flat.unit.columns)]
        return [self.device_place(flat)]

    def fetch(self, flat: FlatUnit) -> Handle:
        """Copy the shard to the device."""
        return self._shelf.get(flat, flat.rows[self._context.rank])

    def announce(self, units: Sequence[FlatUnit]) -> None:
        """See `Home.announce`."""
        self._shelf.announce(units)

    def deliver(self, flat: FlatUnit) -> Handle:
        """Put what was written on the shelf."""
        if not self.updates_on_host:
            return self._shelf.put(flat, self.places.pop(flat.name))
        self._shelf.placed(flat)
        return Done()

    def let_go(self) -> None:
        """The engine is closed."""
        super().let_go()
        self._shelf.let_go()
