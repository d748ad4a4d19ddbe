"""Live tensors of a program at a collective: those that its Python code can still reach.

A backend releases its arguments some time after the call, on a thread of its own, so an allocator's
count is not reproducible. The set of tensors with Python references is.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from zerosim.trace.operators import operator_of

_OF_LOOKING = 3
"""References of the search itself: the list of objects, the variable, the argument."""
_TENSOR: Any = torch.Tensor


class ReachableBytes(TorchDispatchMode):
    """Counts at each call of this thread.

    Attributes:
        counted: bytes of all storages of tensors created since the beginning, at each call; each
            storage once.
    """

    def __init__(self) -> None:
        """Begin; existing tensors are not counted."""
        TorchDispatchMode.__init__(self)
        self.counted: list[int] = []
        gc.collect()
        gc.freeze()

    def end(self) -> None:
        """Stop counting."""
        gc.unfreeze()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Pass an operator on."""
        if func.namespace == "c10d" and operator_of(func.name(), func) is not None:
            self.counted.append(reachable_bytes())
        return func(*args, **(kwargs or {}))


def reachable_bytes() -> int:
    """Bytes of all tensors that are not frozen by the garbage collector."""
    sizes = {}
    for thing in gc.get_objects():
        if isinstance(thing, torch.Tensor):
            is_kept_by_pytorch = _TENSOR._use_count(thing) > 1  # it then has one more reference
            if sys.getrefcount(thing) - _OF_LOOKING > is_kept_by_pytorch:
                storage = thing.untyped_storage()
                sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())
