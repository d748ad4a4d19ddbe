"""Storage of the reduced rows of gradients until the update; micro-steps accumulate in it."""

from __future__ import annotations

import torch

from zerosim.schema.manifest import Segment
from zerosim.trace.holdings import is_same_memory, release
from zerosim.train.engine.context import Context
from zerosim.train.engine.flat import FlatUnit


class ReducedRows:
    """Storage of the reduced rows of gradients until the update."""

    def begin(self, flat: FlatUnit) -> None:
        """Pieces of this unit's rows are about to arrive."""

    def take(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor, *, adds: bool) -> None:
        """Some columns are reduced: keep or accumulate their updated rows."""
        raise NotImplementedError

    def rows(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The updated rows of a unit, complete."""
        raise NotImplementedError

    def settle(self) -> None:
        """Wait for copies in flight."""

    def free(self) -> None:
        """The update has ended or has taken over the rows, so the next gradients may arrive."""

    def release(self) -> None:
        """The engine is closed."""


class InPlaceRows(ReducedRows):
    """Reduced rows in place: in the unit's complete gradient."""

    def __init__(self, context: Context) -> None:
        """Allocate nothing: no further storage is needed."""
        self._context = context

    def take(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor, *, adds: bool) -> None:
        """Copy the rows back to the unit's gradient, unless they are there already."""
        assert flat.gradient is not None, f"{flat.name} has no gradient"
        updated = self._updated(flat)
        place = flat.gradient[updated, segment.start : segment.stop]
        reduced = matrix[updated]
        if not is_same_memory(place, reduced):
            place.copy_(reduced)

    def rows(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The updated rows."""
        assert flat.gradient is not None, f"{flat.name} has no gradient"
        return list(flat.gradient[self._updated(flat)])

    def _updated(self, flat: FlatUnit) -> slice:
        updated = self._context.updated_rows(flat)
        return slice(updated.start, updated.stop)


class DeviceRows(ReducedRows):
    """Reduced rows on the device, from backward until the end of the update."""

    def __init__(self) -> None:
        """Create empty storage."""
        self._rows: dict[str, torch.Tensor] = {}

    def begin(self, flat: FlatUnit) -> None:
        """Pieces of this unit's row are about to arrive."""
        if flat.name not in self._rows:
            # a debugger must not find uninitialized memory before the row is written
            self._rows[flat.name] = flat.new_gradient(flat.unit.columns).zero_()

    def take(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor, *, adds: bool) -> None:
        """A piece of this rank's row is reduced: keep it, or accumulate it."""
        piece = matrix[flat.rank]
        place = self._rows[flat.name][segment.start : segment.stop]
        if adds:
            place.add_(piece)
        else:
            place.copy_(piece)

    def rows(self, flat: FlatUnit) -> list[torch.Tensor]:
        """This rank's row of a unit, complete."""
        assert flat.name in self._rows, f"{flat.name} has no reduced gradient"
        return [self._rows[flat.name]]

    def free(self) -> None:
        """The update has ended."""
        self._rows.clear()

    def release(self) -> None:
        """The engine is closed."""
        for row in self._rows.values():
            release(row)


class OwnedRows(ReducedRows):
    """All rows of the units that this rank owns, on the device; nothing for other units."""

    def __init__(self, context: Context) -> None:
        """Create empty storage."""
        self._owns = context.owns
        self._rows: dict[str, torch.Tensor] = {}

    def take(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor, *, adds: bool) -> None:
        """A whole gradient is reduced: its owner keeps it in place, or accumulates it."""
        if not self._owns(flat):
            return
        if adds:
            self._rows[flat.name].add_(matrix)
        else:
            self._rows[flat.name] = matrix

    def rows(self, flat: FlatUnit) -> list[torch.Tensor]:
        """All rows of a unit, or none."""
        return list(self._rows[flat.name]) if self._owns(flat) else []

    def free(self) -> None:
        """The update has ended."""
        self._rows.clear()

    def release(self) -> None:
        """The engine is closed."""
        for rows in self._rows.values():
            release(rows)
