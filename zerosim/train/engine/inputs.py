"""The checkpoints of block inputs and their placement: ZeRO-R's P_a.

    checkpoint_activations   the input itself, on the device
    partition_activations    T tensor-parallel ranks, which have the same input, each keep one
                             T-th: its columns of the flat input, padded to a multiple of T. They
                             gather it before the block's recomputation (GATHER_ACTIVATIONS)
    contiguous_memory        checkpoints on the device are in a separate arena
    cpu_checkpointing        checkpoints are moved to host memory: OFFLOAD_ACTIVATIONS in forward,
                             FETCH_ACTIVATIONS in backward, b s h / T elements each, once per block
                             and micro-step. The copy to the host overlaps with the block's
                             forward; the copy back begins before the recomputation of the next
                             block, and overlaps with that block's backward

When backward begins, a rank keeps b s h elements per block, or ceil(b s h / T) of them, on the
device or on the host. During a recomputation, the device also has the whole input of that block.

An input is a tensor that requires a gradient. Other arguments of a block (masks, positions) are
kept unchanged, since blocks share them.

Source: Rajbhandari et al. 2020, section 6.1.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch

from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Tier
from zerosim.schema.events import Purpose
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import PLAIN, hold, holdings, storage_of
from zerosim.train.collectives import Collectives, Handle
from zerosim.train.device import rounded
from zerosim.train.engine.contiguous import Arena
from zerosim.train.engine.local import local_part
from zerosim.train.offload.copies import Copies, host_tensor


class InputKeeper:
    """Keeps the inputs of blocks.

    Attributes:
        device: the device of the blocks.
        tensor: collectives of the ranks that each keep a part of an input; a group of one if each
            rank keeps all of it.
        copies: to the host's memory and back; None if inputs stay on the device.
    """

    def __init__(
        self,
        device: torch.device,
        tensor: Collectives,
        copies: Copies | None = None,
        arena: Arena | None = None,
        at_once: int = 1,
    ) -> None:
        """Create empty storage.

        Args:
            arena: arena for checkpoints on the device; None for ordinary allocations.
            at_once: number of inputs kept there at a time.
        """
        self.device = device
        self.tensor = tensor
        self.copies = copies
        self._arena = arena
        self._at_once = at_once
        self._leaving: list[_Part] = []
        self._last: weakref.ref[_Part] | None = None

    def keep(self, unit: str, value: Any) -> _AsItIs | _InPlace | _Part:
        """Keep one of the arguments of a block, before it computes.

        Returns:
            The checkpoint; `restore` returns the original, once, a tensor as a new leaf.
        """
        if not isinstance(value, torch.Tensor):
            return _AsItIs(value)
        is_input = value.requires_grad and value.is_floating_point()
        if not is_input or type(value) not in PLAIN or not self._changes_place:
            return _InPlace(unit, value, is_input=is_input)
        self.settle()
        part = _Part(unit, value, self, self._last)
        self._last = weakref.ref(part)
        if self.copies is not None:
            self._leaving.append(part)
        return part

    def room(self, elements: int, dtype: torch.dtype) -> torch.Tensor:
        """An uninitialized vector on the device, for a checkpoint."""
        if self._arena is None:
            return torch.empty(elements, dtype=dtype, device=self.device)
        if self._arena.reserved_bytes == 0:  # the first input determines their size
            self._arena.reserve(self._at_once * rounded(elements * dtype.itemsize))
        return self._arena.take((elements,), dtype)

    def settle(self) -> None:
        """Wait for copies in flight to the host, and release the device's copy."""
        for part in self._leaving:
            part.leave()
        self._leaving.clear()

    def close(self) -> None:
        """End the thread that copies."""
        self.settle()
        if self.copies is not None:
            self.copies.close()

    @property
    def _changes_place(self) -> bool:
        kinds = (self.copies, self._arena)
        return self.tensor.group.size > 1 or any(kind is not None for kind in kinds)


class _AsItIs:
    """An argument that is not a tensor."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def restore(self) -> Any:
        return self._value


class _InPlace:
    """A tensor that stays in place."""

    def __init__(self, unit: str, tensor: torch.Tensor, *, is_input: bool) -> None:
        self._unit = unit
        self._tensor = tensor.detach()
        self._requires_grad = tensor.requires_grad
        self._version = tensor._version  # noqa: SLF001 - autograd's own check has no public name
        if is_input:
            say_what_for(self._tensor, Role.CHECKPOINTS, unit)

    def restore(self) -> torch.Tensor:
        if self._tensor._version != self._version:  # noqa: SLF001
            raise ConfigError(
                f"an input of unit {self._unit} was changed in place, so the unit cannot be "
                "recomputed: with checkpoint_activations, do not change a block's input"
            )
        return self._tensor.detach().requires_grad_(self._requires_grad)


class _Part:
    """This rank's part of an input: one row of (T, columns), on the device or on the host."""

    def __init__(
        self,
        unit: str,
        tensor: torch.Tensor,
        keeper: InputKeeper,
        before: weakref.ref[_Part] | None,
    ) -> None:
        """Keep this rank's part; with one rank, it is the input itself.

        Args:
            before: the part of the block that computed before this one.
        """
        self._unit = unit
        self._shape = tensor.shape
        self._elements = tensor.numel()
        self._keeper = keeper
        self._before = before
        group = keeper.tensor.group
        self._columns = -(-self._elements // group.size)
        own = tensor.detach().reshape(-1)
        if group.size > 1 or keeper.copies is None:
            start = group.rank * self._columns
            piece = own[start : start + self._columns]
            own = keeper.room(self._columns, tensor.dtype)
            own[: piece.numel()] = piece
            own[piece.numel() :] = 0
        self._own: torch.Tensor | None = own
        say_what_for(own, Role.CHECKPOINTS, unit)
        self._host: torch.Tensor | None = None
        self._leaving: Handle | None = None
        self._arriving: Handle | None = None
        if keeper.copies is not None:
            self._host = host_tensor(own, self._columns, Role.CHECKPOINTS, unit)
            with labels.scope(unit=unit, purpose=Purpose.OFFLOAD_ACTIVATIONS, tensors=(unit,)):
                way = (Tier.DEVICE, Tier.HOST)
                self._leaving = keeper.copies.copy(self._host, own, way)

    def leave(self) -> None:
        """The part is on the host: the device's copy of it may be freed."""
        if self._leaving is not None:
            self._leaving.wait()
            self._leaving = self._own = None

    def fetch(self) -> None:
        """Start copying the part back to the device."""
        self.leave()
        if self._host is None or self._arriving is not None:
            return
        assert self._keeper.copies is not None
        self._own = self._keeper.room(self._columns, self._host.dtype)
        hold(self._own, Role.CHECKPOINTS, self._unit)
        with labels.scope(
            unit=self._unit, purpose=Purpose.FETCH_ACTIVATIONS, tensors=(self._unit,)
        ):
            way = (Tier.HOST, Tier.DEVICE)
            self._arriving = self._keeper.copies.copy(self._own, self._host, way)

    def restore(self) -> torch.Tensor:
        self.fetch()
        if self._arriving is not None:
            self._arriving.wait()
        before = self._before() if self._before is not None else None
        if before is not None:
            before.fetch()
        own, self._own, self._host = self._own, None, None
        assert own is not None, "restored twice"
        if self._keeper.tensor.group.size > 1:
            own = self._gather(own)
        return own[: self._elements].view(self._shape).requires_grad_()

    def _gather(self, own: torch.Tensor) -> torch.Tensor:
        collectives = self._keeper.tensor
        gathered = own.new_empty(collectives.group.size, self._columns)
        gathered[collectives.group.rank] = own
        hold(gathered, Role.ACTIVATIONS, self._unit)
        with labels.scope(
            unit=self._unit, purpose=Purpose.GATHER_ACTIVATIONS, tensors=(self._unit,)
        ):
            collectives.all_gather(gathered).wait()
        return gathered.view(-1)


def say_what_for(tensor: torch.Tensor, role: Role, unit: str) -> None:
    """Set the role of a tensor's storage, unless it has one."""
    storage = storage_of(local_part(tensor))
    if storage is not None and holdings.get(storage) is None:
        hold(local_part(tensor), role, unit)
