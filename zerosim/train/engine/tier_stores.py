"""Parameters off the device: a part of each unit, on the host or on a disk.

A `ParameterStore` decides which part: a rank's row, or all rows of the units that it owns.
Source: Rajbhandari et al., "ZeRO-Infinity" (arXiv 2104.07857), sections 5.1.1 and 6.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from zerosim.base.tiers import Tier
from zerosim.schema.events import Purpose
from zerosim.schema.memory import Role
from zerosim.trace.holdings import hold_file, release
from zerosim.train.collectives import Handle
from zerosim.train.engine.context import Context
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.offload import Buffer
from zerosim.train.offload.copies import host_tensor

TO_DEVICE = (Tier.HOST, Tier.DEVICE)
TO_HOST = (Tier.DEVICE, Tier.HOST)


class TierStore:
    """Keeps one vector of parameters for each unit."""

    def put(self, flat: FlatUnit, source: torch.Tensor, after: Sequence[Handle] = ()) -> Handle:
        """Keep a copy of a vector on the device, once the given work has ended."""
        raise NotImplementedError

    def get(self, flat: FlatUnit, target: torch.Tensor) -> Handle:
        """Copy the stored vector to the device."""
        raise NotImplementedError

    def place(self, flat: FlatUnit, elements: int) -> torch.Tensor:
        """A buffer on the host for the optimizer's result, until `placed`."""
        raise NotImplementedError

    def placed(self, flat: FlatUnit) -> None:
        """The vector was written in place."""

    def prefetch(self, units: Sequence[FlatUnit]) -> None:
        """Announce vectors that will be fetched soon, in this order, and no others."""

    def release(self) -> None:
        """The engine is closed."""


class HostStore(TierStore):
    """Vectors in the host's memory."""

    def __init__(self, context: Context) -> None:
        """Create an empty store."""
        self._copies = context.copies
        self.kept: dict[str, torch.Tensor] = {}

    def put(self, flat: FlatUnit, source: torch.Tensor, after: Sequence[Handle] = ()) -> Handle:
        """Copy the vector to the host."""
        target = self.place(flat, source.numel())
        with flat.labelled(Purpose.STORE_PARAMETERS):
            return self._copies.copy(target, source, TO_HOST, after)

    def get(self, flat: FlatUnit, target: torch.Tensor) -> Handle:
        """Copy the vector from the host."""
        with flat.labelled(Purpose.FETCH_PARAMETERS):
            return self._copies.copy(target, self.kept[flat.name], TO_DEVICE)

    def place(self, flat: FlatUnit, elements: int) -> torch.Tensor:
        """The vector itself."""
        if flat.name not in self.kept:
            self.kept[flat.name] = host_tensor(flat.flat, elements, Role.PARAMETERS, flat.name)
        return self.kept[flat.name]

    def release(self) -> None:
        """The engine is closed."""
        for tensor in self.kept.values():
            release(tensor)


class DiskStore(TierStore):
    """Vectors on a disk, read and written through a few buffers on the host."""

    def __init__(self, context: Context) -> None:
        """Create an empty store."""
        assert context.disk is not None, "nothing is configured to be on a disk"
        self._disk = context.disk
        self._copies = context.copies
        # one buffer is reserved for an unannounced vector, one for writes
        self._most_coming = context.config.disk_buffers - 2
        self._coming: dict[str, tuple[Buffer, Handle]] = {}
        self._places: dict[str, Buffer] = {}
        self._sizes: dict[str, int] = {}

    def put(self, flat: FlatUnit, source: torch.Tensor, after: Sequence[Handle] = ()) -> Handle:
        """Write the vector; the copy ends when the vector has left the device."""
        target = self.place(flat, source.numel())
        with flat.labelled(Purpose.STORE_PARAMETERS):
            return self._copies.copy(target, source, TO_HOST, after, then=lambda: self.placed(flat))

    def get(self, flat: FlatUnit, target: torch.Tensor) -> Handle:
        """Copy the vector from the disk to the host, then to the device."""
        with flat.labelled(Purpose.FETCH_PARAMETERS):
            coming = flat.name in self._coming
            buffer, read = (
                self._coming.pop(flat.name) if coming else self._begin(flat, self._room(flat))
            )
            kept = buffer.tensor.view(target.dtype)
            return self._copies.copy(target, kept, TO_DEVICE, after=[read], then=buffer.release)

    def find(self, flat: FlatUnit, elements: int) -> None:
        """Continue with the vector that an earlier run stored."""
        self._sizes[flat.name] = elements * flat.flat.element_size()
        hold_file(_name(flat), Role.PARAMETERS, flat.name, self._sizes[flat.name])

    def prefetch(self, units: Sequence[FlatUnit]) -> None:
        """Prefetch vectors while there are free buffers; forget unused announcements."""
        wanted = {flat.name for flat in units}
        for name in [name for name in self._coming if name not in wanted]:
            self._forget(name)
        for flat in units:
            if len(self._coming) >= self._most_coming:
                return
            if flat.name in self._coming:
                continue
            buffer = self._disk.try_buffer(self._sizes[flat.name])
            if buffer is None:
                return
            with flat.labelled(Purpose.FETCH_PARAMETERS):
                self._coming[flat.name] = self._begin(flat, buffer)

    def place(self, flat: FlatUnit, elements: int) -> torch.Tensor:
        """A buffer from the pool."""
        if flat.name not in self._places:
            self._sizes[flat.name] = elements * flat.flat.element_size()
            self._places[flat.name] = self._disk.buffer(self._sizes[flat.name])
        return self._places[flat.name].tensor.view(flat.flat.dtype)

    def placed(self, flat: FlatUnit) -> None:
        """Write the buffer to the disk, and release it."""
        buffer = self._places.pop(flat.name)
        with flat.labelled(Purpose.STORE_PARAMETERS):
            self._disk.write(_name(flat), buffer.tensor, on_done=buffer.release)
        hold_file(_name(flat), Role.PARAMETERS, flat.name, self._sizes[flat.name])

    def release(self) -> None:
        """The engine is closed."""
        self.prefetch([])
        for flat_name in self._sizes:
            hold_file(f"parameters/{flat_name}", Role.PARAMETERS, flat_name, 0)

    def _begin(self, flat: FlatUnit, buffer: Buffer) -> tuple[Buffer, Handle]:
        return buffer, self._disk.read(_name(flat), buffer.tensor)

    def _room(self, flat: FlatUnit) -> Buffer:
        """A buffer for immediate use, if necessary that of an announced vector."""
        buffer = self._disk.try_buffer(self._sizes[flat.name])
        if buffer is None and self._coming:
            self._forget(next(reversed(self._coming)))
        return buffer or self._disk.buffer(self._sizes[flat.name])

    def _forget(self, name: str) -> None:
        buffer, read = self._coming.pop(name)
        read.wait()
        buffer.release()


def _name(flat: FlatUnit) -> str:
    """The name of a unit's parameters in the store."""
    return f"parameters/{flat.name}"
