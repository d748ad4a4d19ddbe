"""Where a rank keeps its own rows of the reduced gradients: on the device, or on the host.

With ZeRO-Offload they leave the device as backward produces them (Ren et al., "ZeRO-Offload",
arXiv 2101.06840, section 4.1); micro-steps are added up where the rows are kept.
Imports torch, zerosim's L0, collectives, offload and trace.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from zerosim.collectives import Handle
from zerosim.config import Offload
from zerosim.engine.flat import FlatUnit
from zerosim.events import Purpose
from zerosim.manifest import Segment
from zerosim.memory import Role
from zerosim.offload.copies import host_tensor
from zerosim.tiers import Tier
from zerosim.trace import labels
from zerosim.trace.holdings import let_go

if TYPE_CHECKING:
    from zerosim.engine.stage import Context

MOST_LEAVING = 1
"""Pieces on their way to the host at once: what they are copied from cannot be freed."""


class DeviceRows:
    """Reduced rows on the device, from backward until the update is over."""

    def __init__(self) -> None:
        """No row has begun."""
        self._rows: dict[str, torch.Tensor] = {}

    def begin(self, flat: FlatUnit) -> None:
        """Pieces of this unit's row are about to come."""
        if flat.name not in self._rows:
            self._rows[flat.name] = flat.new_gradient(flat.unit.columns)

    def take(self, flat: FlatUnit, segment: Segment, piece: torch.Tensor, *, adds: bool) -> None:
        """A piece of the own row is reduced: keep it, or add it to what is there."""
        place = self._rows[flat.name][segment.start : segment.stop]
        if adds:
            place.add_(piece)
        else:
            place.copy_(piece)

    def rows(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The own row of a unit, complete."""
        assert flat.name in self._rows, f"{flat.name} has no reduced gradient"
        return [self._rows[flat.name]]

    def settle(self) -> None:
        """Nothing is on its way."""

    def free(self) -> None:
        """The update is over."""
        self._rows.clear()

    def let_go(self) -> None:
        """The engine is closed."""
        _let_go(self._rows.values())


class HostRows:
    """Reduced rows on the host, in memory that is kept.

    With the delayed update there are two of each: one that backward fills, one that the update of
    the step before reads.
    """

    def __init__(self, context: Context) -> None:
        """No row has begun."""
        self._context = context
        self._filled: dict[str, torch.Tensor] = {}
        self._other: dict[str, torch.Tensor] = {}
        self._staging: torch.Tensor | None = None
        self._leaving: deque[Handle] = deque()

    def begin(self, flat: FlatUnit) -> None:
        """Pieces of this unit's row are about to come."""
        if flat.name not in self._filled:
            self._filled[flat.name] = host_tensor(
                flat.flat, flat.unit.columns, Role.GRADIENTS, flat.name
            )

    def take(self, flat: FlatUnit, segment: Segment, piece: torch.Tensor, *, adds: bool) -> None:
        """A piece of the own row is reduced: it leaves the device."""
        while len(self._leaving) >= MOST_LEAVING:
            self._leaving.popleft().wait()
        place = self._filled[flat.name][segment.start : segment.stop]
        copies = self._context.copies
        with labels.scope(unit=flat.name, purpose=Purpose.OFFLOAD_GRADIENTS, tensors=(flat.name,)):
            if adds:
                handle = copies.add(place, piece, self._staged(piece))
            else:
                handle = copies.copy(place, piece, (Tier.DEVICE, Tier.HOST))
        self._leaving.append(handle)

    def rows(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The own row of a unit, once it is here."""
        self.settle()
        return [self._filled[flat.name]]

    def settle(self) -> None:
        """Wait until all that leaves the device has left it."""
        while self._leaving:
            self._leaving.popleft().wait()

    def free(self) -> None:
        """The update is over, or has taken the rows to itself: the next gradients come."""
        if self._context.config.delayed_update:
            self._filled, self._other = self._other, self._filled

    def let_go(self) -> None:
        """The engine is closed."""
        _let_go([*self._filled.values(), *self._other.values()])

    def _staged(self, piece: torch.Tensor) -> torch.Tensor:
        """A place on the host for what is added; one thread adds, so one place is enough."""
        if self._staging is None or self._staging.numel() < piece.numel():
            self._staging = host_tensor(piece, piece.numel(), Role.BUFFERS, "")
        return self._staging[: piece.numel()]


ReducedRows = DeviceRows | HostRows


def make_rows(context: Context) -> ReducedRows:
    """Where the configuration keeps them."""
    if context.config.offload_optimizer is Offload.NONE:
        return DeviceRows()
    return HostRows(context)


def _let_go(tensors: Iterable[torch.Tensor]) -> None:
    for tensor in tensors:
        let_go(tensor)
