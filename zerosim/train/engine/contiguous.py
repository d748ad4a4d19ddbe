"""Memory that is allocated once and then divided: long-lived and short-lived tensors do not
interleave (ZeRO-R's M_D: Rajbhandari et al. 2020, arXiv 1910.02054, section 6.3).

A piece of an arena is a separate storage backed by the arena's bytes. The memory ledger records its
role and size as for any other storage, and its range is free again when the storage is freed.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from math import prod

import torch
from torch._subclasses.fake_tensor import FakeTensor

from zerosim.schema.memory import Role
from zerosim.train.device import AddressSpace, on_host, reserved, rounded


class _ArenaPiece(weakref.ref[torch.UntypedStorage]):
    """A storage inside a slab."""

    __slots__ = ("offset", "slab")

    offset: int
    slab: _Slab


class _Slab:
    """Memory that is allocated in one piece, and its ranges in use."""

    def __init__(self, num_bytes: int, device: torch.device, role: Role) -> None:
        memory = torch.empty(num_bytes, dtype=torch.uint8, device=device)
        reserved(memory, role)
        self._memory = memory
        self.space = AddressSpace(num_bytes)

    def tensor_at(self, offset: int, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A tensor in this memory, with its own storage."""
        if isinstance(self._memory, FakeTensor):
            with on_host():  # it needs no memory besides the slab
                return torch.empty(shape, dtype=dtype, device=self._memory.device)
        num_bytes = prod(shape) * dtype.itemsize
        storage = self._memory.untyped_storage()[offset : offset + num_bytes]
        assert isinstance(storage, torch.UntypedStorage)
        return torch.empty(0, dtype=dtype, device=self._memory.device).set_(storage).view(shape)


class Arena:
    """Memory for tensors of one role.

    Attributes:
        reserved_bytes: all allocated bytes.
    """

    def __init__(self, device: torch.device, role: Role) -> None:
        """An arena without memory; `reserve` allocates it."""
        self._device = device
        self._role = role
        self._slabs: list[_Slab] = []
        self._gone: deque[_ArenaPiece] = deque()
        self._pieces: dict[int, _ArenaPiece] = {}

    @property
    def reserved_bytes(self) -> int:
        """All allocated bytes."""
        return sum(slab.space.limit_bytes for slab in self._slabs)

    @property
    def used_bytes(self) -> int:
        """Bytes of it in use, including rounding."""
        self._settle()
        return sum(slab.space.used_bytes for slab in self._slabs)

    def reserve(self, num_bytes: int) -> None:
        """Allocate the bytes of the arena in one piece."""
        self._slabs.append(_Slab(rounded(num_bytes), self._device, self._role))

    def take(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A new contiguous tensor, not initialized, in the arena's memory.

        The range is free again when its storage is freed. If no range is large enough, the arena
        grows by the missing bytes.
        """
        self._settle()
        num_bytes = prod(shape) * dtype.itemsize
        if num_bytes == 0:
            return torch.empty(shape, dtype=dtype, device=self._device)
        for slab in self._slabs:
            offset = slab.space.take(num_bytes)
            if offset is not None:
                break
        else:
            self.reserve(num_bytes)
            slab = self._slabs[-1]
            offset = slab.space.take(num_bytes)
            assert offset is not None
        tensor = slab.tensor_at(offset, shape, dtype)
        piece = _ArenaPiece(tensor.untyped_storage(), self._gone.append)
        piece.slab, piece.offset = slab, offset
        self._pieces[id(piece)] = piece
        return tensor

    def _settle(self) -> None:
        """Reclaim the ranges of freed pieces."""
        while self._gone:
            piece = self._gone.popleft()
            piece.slab.space.give(piece.offset)
            del self._pieces[id(piece)]
