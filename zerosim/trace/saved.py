"""Tensors that autograd saved in forward for backward, counted as long as they are saved.

PyTorch offers a pair of hooks for saved tensors. Ours return the same values, so the computation
does not change; in between, autograd holds a small object, whose destruction shows that autograd
has released the tensor. A storage with a known role, such as a parameter, is not counted, even if
the role becomes known only later, as for parameters that `fully_shard` gathers for the first time.
A subclass of tensors may have no storage of its own; it passes through uncounted, except for a
DTensor, which wraps this rank's part.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import autograd

from zerosim.trace.eager import uncompiled
from zerosim.trace.guard import guarded
from zerosim.trace.holdings import PLAIN, HeldStorages, storage_of


class _PackedTensor:
    """A tensor in autograd's keeping, as it was when it was saved."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.version = tensor._version


class _CountedTensor(_PackedTensor):
    """One whose storage is counted until autograd releases it."""

    __slots__ = ("_gone", "_key")

    def __init__(self, tensor: torch.Tensor, key: int, gone: deque[int]) -> None:
        self.tensor = tensor
        self.version = tensor._version
        self._key = key
        self._gone = gone

    def __del__(self) -> None:
        # may run in the middle of anything, so it only leaves a note
        self._gone.append(self._key)


class _SavedStorage:
    """A storage that is saved, perhaps more than once."""

    __slots__ = ("bytes", "times", "unit")

    def __init__(self, unit: str, num_bytes: int) -> None:
        self.unit = unit
        self.bytes = num_bytes
        self.times = 0


class SavedTensors:
    """Counts the bytes of saved tensors by unit, each storage once.

    Attributes:
        unit: the unit whose forward computes now; "" if unknown.
    """

    def __init__(self, holdings: HeldStorages) -> None:
        """Count nothing yet; `install` begins.

        Args:
            holdings: storages that have a different role.
        """
        self.unit = ""
        self._holdings = holdings
        self._kept: dict[int, _SavedStorage] = {}
        self._changed: dict[str, int] = {}
        self._gone: deque[int] = deque()
        self._said = holdings.listen()
        self._lock = threading.RLock()
        self._hooks = autograd.graph.saved_tensors_hooks(self._pack, _unpack)

    def install(self) -> None:
        """Begin to count the tensors that this thread's forward saves."""
        self._hooks.__enter__()
        self._disable = autograd.graph.disable_saved_tensors_hooks
        autograd.graph.disable_saved_tensors_hooks = self._step_aside

    def remove(self) -> None:
        """Stop counting; saved tensors stay valid."""
        self._holdings.stop_listening(self._said)
        autograd.graph.disable_saved_tensors_hooks = self._disable
        if self._is_innermost():  # else on another thread, or out of order
            self._hooks.__exit__()

    def changes(self) -> dict[str, int]:
        """Change in the bytes of units since the last call."""
        if not self._gone and not self._changed and not self._said:
            return {}
        with self._lock:
            self._settle()
            while self._said:
                kept = self._kept.get(self._said.popleft().key)
                if kept is not None:  # it has another role, and is counted there
                    self._grow(kept.unit, -kept.bytes)
                    kept.bytes = 0
            changed, self._changed = self._changed, {}
        return changed

    def unit_of(self, key: int) -> str | None:
        """The unit for which a storage is currently saved; None if it is not saved."""
        kept = self._kept.get(key)
        return None if kept is None else kept.unit

    @contextmanager
    def _step_aside(self, error_message: str) -> Iterator[None]:
        """Remove our hooks where PyTorch allows none (torch.func.grad): nothing is counted."""
        ours = self._is_innermost()
        if ours:
            self._hooks.__exit__()
        try:
            with self._disable(error_message):
                yield
        finally:
            if ours:
                self._hooks.__enter__()

    @uncompiled
    def _is_innermost(self) -> bool:
        """Whether no other hooks were put over ours on this thread."""
        top = torch._C._autograd._top_saved_tensors_default_hooks(False)  # noqa: FBT003
        return top is not None and getattr(top[0], "__self__", None) is self

    def _pack(self, tensor: torch.Tensor) -> Any:
        packed = self._count(tensor)
        return tensor if packed is None else packed

    @guarded
    def _count(self, tensor: torch.Tensor) -> _PackedTensor | None:
        part: Any = tensor if type(tensor) in PLAIN else getattr(tensor, "_local_tensor", None)
        storage = storage_of(part) if type(part) in PLAIN else None
        if storage is None:
            return None
        if tensor.grad_fn is not None:
            # an operator that saves its own result would be kept alive by it for ever; on
            # unpacking, autograd attaches the result to its operator again
            tensor = tensor.detach()
        if self._holdings.get(storage) is not None:
            return _PackedTensor(tensor)
        key: int = storage._cdata
        with self._lock:
            if self._gone:
                self._settle()
            kept = self._kept.get(key)
            if kept is None:
                kept = self._kept[key] = _SavedStorage(self.unit, storage.nbytes())
                self._grow(kept.unit, kept.bytes)
            kept.times += 1
        return _CountedTensor(tensor, key, self._gone)

    def _settle(self) -> None:
        """Apply the releases since the last call."""
        while self._gone:
            key = self._gone.popleft()
            kept = self._kept[key]
            kept.times -= 1
            if kept.times == 0:
                del self._kept[key]
                self._grow(kept.unit, -kept.bytes)

    def _grow(self, unit: str, num_bytes: int) -> None:
        self._changed[unit] = self._changed.get(unit, 0) + num_bytes


@uncompiled
def _unpack(saved: Any) -> torch.Tensor:
    if not isinstance(saved, _PackedTensor):
        whole: torch.Tensor = saved
        return whole
    # with hooks PyTorch leaves this check to them
    if saved.tensor._version != saved.version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace "
            f"operation: a tensor of shape {list(saved.tensor.shape)} is at version "
            f"{saved.tensor._version}; expected version {saved.version} instead"
        )
    return saved.tensor
