"""Where a rank keeps the reduced rows of gradients until the update: on the device or on the host.

With ZeRO-Offload they leave the device as backward produces them (Ren et al., "ZeRO-Offload",
arXiv 2101.06840, section 4.1); micro-steps are added up where the rows are kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch

from zerosim.collectives import Handle
from zerosim.config import EngineConfig
from zerosim.device import rounded
from zerosim.engine.context import Context
from zerosim.engine.contiguous import Arena
from zerosim.engine.flat import FlatUnit
from zerosim.events import Purpose
from zerosim.manifest import BucketLayout, Segment
from zerosim.memory import Role
from zerosim.offload.copies import host_tensor
from zerosim.tiers import Tier
from zerosim.trace import labels
from zerosim.trace.holdings import release

MOST_LEAVING = 1
"""Pieces on their way to the host at once: what they are copied from cannot be freed."""


class InPlaceRows:
    """Reduced rows where they were summed up: in the unit's complete gradient."""

    def __init__(self, context: Context) -> None:
        """Nothing is kept beside it."""
        updated = context.updated_rows
        self._updated = slice(updated.start, updated.stop)

    def begin(self, flat: FlatUnit) -> None:
        """The gradient is there."""

    def take(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor, *, adds: bool) -> None:
        """Copy the rows back to the unit's gradient, unless they are there already."""
        assert flat.gradient is not None, f"{flat.name} has no gradient"
        place = flat.gradient[self._updated, segment.start : segment.stop]
        reduced = matrix[self._updated]
        if place.data_ptr() != reduced.data_ptr():
            place.copy_(reduced)

    def rows(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The updated rows."""
        assert flat.gradient is not None, f"{flat.name} has no gradient"
        return list(flat.gradient[self._updated])

    def settle(self) -> None:
        """Nothing is on its way."""

    def free(self) -> None:
        """The gradient stays, for the next micro-step to write over."""

    def release(self) -> None:
        """Nothing is kept."""


class DeviceRows:
    """Reduced rows on the device, from backward until the update is over."""

    def __init__(self) -> None:
        """No row has begun."""
        self._rows: dict[str, torch.Tensor] = {}

    def begin(self, flat: FlatUnit) -> None:
        """Pieces of this unit's row are about to come."""
        if flat.name not in self._rows:
            self._rows[flat.name] = flat.new_gradient(flat.unit.columns)

    def take(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor, *, adds: bool) -> None:
        """A piece of the own row is reduced: keep it, or add it to what is there."""
        piece = matrix[flat.rank]
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

    def release(self) -> None:
        """The engine is closed."""
        for row in self._rows.values():
            release(row)


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

    def take(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor, *, adds: bool) -> None:
        """A piece of the own row is reduced: it leaves the device."""
        piece = matrix[flat.rank]
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

    def release(self) -> None:
        """The engine is closed."""
        for row in (*self._filled.values(), *self._other.values()):
            release(row)

    def _staged(self, piece: torch.Tensor) -> torch.Tensor:
        """A place on the host for what is added; one thread adds, so one place is enough."""
        if self._staging is None or self._staging.numel() < piece.numel():
            self._staging = host_tensor(piece, piece.numel(), Role.BUFFERS, "")
        return self._staging[: piece.numel()]


ReducedRows = InPlaceRows | DeviceRows | HostRows


def make_gradient_arena(
    config: EngineConfig, units: Sequence[FlatUnit], buckets: Sequence[BucketLayout]
) -> Arena | None:
    """Memory for all gradients that a stage keeps on the device at once; None if not asked for.

    Stages 0 and 1 keep those of all units. Stages 2 and 3 keep this rank's rows and the complete
    gradients of two buckets in a row: one is on its way while the next is computed. If the
    optimizer is offloaded the rows are on the host, and pieces of earlier buckets are leaving.
    """
    if not config.contiguous_memory:
        return None
    trained = {flat.name: flat for flat in units if flat.unit.trainable}
    complete = {name: rounded(flat.num_ranks * flat.row_bytes) for name, flat in trained.items()}
    if config.stage < 2:
        num_bytes = sum(complete.values())
    else:
        stays = not config.offloads_optimizer
        at_once = 2 if stays else 2 + MOST_LEAVING
        # what leaves may still be on its way when the next backward begins
        parts = [
            {(lap, segment.unit) for segment in bucket.segments}
            for lap in range(1 if stays else at_once)
            for bucket in buckets
        ]
        num_bytes = max(
            sum(complete[name] for _, name in set().union(*parts[first : first + at_once]))
            for first in range(len(parts))
        )
        if stays:
            num_bytes += sum(rounded(flat.row_bytes) for flat in trained.values())
    some = next(iter(trained.values()))
    arena = Arena(some.flat.device, Role.GRADIENTS)
    arena.reserve(num_bytes)
    return arena
