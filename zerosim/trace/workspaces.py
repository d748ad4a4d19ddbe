"""The memory that cuBLAS keeps on a GPU: a workspace for each of its handles and streams.

PyTorch allocates them through its own allocator without creating a tensor, so no storage reveals
them. All have the same size, which PyTorch chooses (aten/src/ATen/cuda/CublasHandlePool.cpp): among
the memory that no role explains, blocks of that size are workspaces.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

_VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
_KIB = 1 << 10
_OF_HOPPER = 32 << 20
_HOPPER = 9
"""The first compute capability with the larger default."""
_DEFAULT = (4096 * 2 + 16 * 8) * _KIB


def workspace_bytes(capability: int, environ: Mapping[str, str] = os.environ) -> int:
    """The size of each workspace.

    Args:
        capability: the device's compute capability, the first number.
    """
    parts = environ.get(_VARIABLE, "").strip(":").split(":")
    if len(parts) % 2 == 0 and all(part.isdigit() for part in parts):
        numbers = [int(part) for part in parts]
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        return sum(size * count for size, count in pairs) * _KIB
    return _OF_HOPPER if capability >= _HOPPER else _DEFAULT


def alive(segments: Iterable[Mapping[str, Any]], size: int) -> int:
    """Bytes of the live blocks of a given size.

    Args:
        segments: as in `torch.cuda.memory._snapshot`.
    """
    return sum(
        size
        for segment in segments
        for block in segment["blocks"]
        if block["state"] == "active_allocated" and block.get("requested_size") == size
    )


class Workspaces:
    """Looks for workspaces when the live memory without a role is at least as large as one."""

    def __init__(self) -> None:
        self.bytes = 0
        self._size = 0
        self._most = 0

    def grown(self, other_bytes: int) -> int:
        """Change in the bytes of workspaces since the last call.

        Args:
            other_bytes: bytes that no role explains, including workspaces.
        """
        if not self._size:
            self._size = workspace_bytes(torch.cuda.get_device_capability()[0])
        # a full snapshot of the allocator is rarely taken: when there is more than ever before
        if other_bytes < self._most + self._size:
            return 0
        self._most = other_bytes
        found = min(alive(_segments(), self._size), other_bytes // self._size * self._size)
        grown, self.bytes = found - self.bytes, found
        return grown


def _segments() -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = torch.cuda.memory._snapshot()["segments"]
    return found
