"""Reduced rows of gradients on the host.

With ZeRO-Offload they leave the device as backward produces them (Ren et al., "ZeRO-Offload",
arXiv 2101.06840, section 4.1).
"""

from __future__ import annotations

from collections import deque

import torch

from zerosim.base.tiers import Tier
from zerosim.schema.events import Purpose
from zerosim.schema.manifest import Segment
from zerosim.schema.memory import Role
from zerosim.trace.holdings import release
from zerosim.train.collectives import Handle
from zerosim.train.engine.context import Context
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.engine.reduced_rows import ReducedRows
from zerosim.train.offload.copies import host_tensor

MOST_LEAVING = 1
"""Maximum number of pieces in flight to the host: their sources cannot be freed."""


class HostRows(ReducedRows):
    """Reduced rows on the host, in memory that is kept.

    With the delayed update there are two of each: one filled by backward, one read by the update of
    the previous step.
    """

    def __init__(self, context: Context) -> None:
        """Create empty storage."""
        self._context = context
        self._filled: dict[str, torch.Tensor] = {}
        self._other: dict[str, torch.Tensor] = {}
        self._staging: torch.Tensor | None = None
        self._leaving: deque[Handle] = deque()

    def begin(self, flat: FlatUnit) -> None:
        """Pieces of this unit's row are about to arrive."""
        if flat.name not in self._filled:
            self._filled[flat.name] = host_tensor(
                flat.flat, flat.unit.columns, Role.GRADIENTS, flat.name
            )

    def take(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor, *, adds: bool) -> None:
        """A piece of the rank's own row is reduced and leaves the device."""
        piece = matrix[flat.rank]
        while len(self._leaving) >= MOST_LEAVING:
            self._leaving.popleft().wait()
        place = self._filled[flat.name][segment.start : segment.stop]
        copies = self._context.copies
        with flat.labelled(Purpose.OFFLOAD_GRADIENTS):
            if adds:
                handle = copies.add(place, piece, self._staged(piece))
            else:
                handle = copies.copy(place, piece, (Tier.DEVICE, Tier.HOST))
        self._leaving.append(handle)

    def rows(self, flat: FlatUnit) -> list[torch.Tensor]:
        """This rank's row of a unit, once it has arrived."""
        self.settle()
        return [self._filled[flat.name]]

    def settle(self) -> None:
        """Wait until all pieces in flight have left the device."""
        while self._leaving:
            self._leaving.popleft().wait()

    def free(self) -> None:
        """The update has ended or has taken over the rows, so the next gradients may arrive."""
        if self._context.config.delayed_update:
            self._filled, self._other = self._other, self._filled

    def release(self) -> None:
        """The engine is closed."""
        for row in (*self._filled.values(), *self._other.values()):
            release(row)

    def _staged(self, piece: torch.Tensor) -> torch.Tensor:
        """A buffer on the host for addends; one thread adds, so one buffer is enough."""
        if self._staging is None or self._staging.numel() < piece.numel():
            self._staging = host_tensor(piece, piece.numel(), Role.BUFFERS, "")
        return self._staging[: piece.numel()]
