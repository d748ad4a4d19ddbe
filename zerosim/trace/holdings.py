"""What storages are kept for, as those who allocate them say.

    hold(tensor, role, unit)     this tensor's storage is a unit's gradient, shard, momentum ...
    release(tensor)               and whom it served is gone
    hold_file(name, ...)         a file holds so many bytes of a unit; 0 when it is removed

A label, like those in `labels`: it says what a storage is for and never how large it is. The bytes
are read from the storage itself, for as long as it lives; nothing here keeps it alive. Saying it
costs about a microsecond, whether a trace is recorded or not, so that a trace may begin late.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor

from zerosim.base.tiers import Tier
from zerosim.schema.memory import Role

PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)
"""Tensors with a storage of their own. A fake one's is of its size, without memory behind it."""
_FIRST_CLEANING = 256
"""With so many entries those of dead storages are dropped for the first time."""

_TENSOR: Any = torch.Tensor
_free_weak_ref = torch.UntypedStorage._free_weak_ref


class HeldStorage:
    """One storage and what it is for.

    Attributes:
        key: identifies the storage as long as this entry exists.
        dtype, shape: of the tensor that it was said of.
        tier: where it lies.
        thread: the one that said so, hence that allocated it.
        is_left: its owner is gone, or never said so; it counts until the trace that is being
            recorded ends.
    """

    __slots__ = ("dtype", "is_left", "key", "role", "shape", "thread", "tier", "unit")

    def __init__(
        self,
        storage: torch.UntypedStorage,
        tensor: torch.Tensor,
        role: Role,
        unit: str,
        tier: Tier = Tier.DEVICE,
    ) -> None:
        # as `StorageWeakRef` has it, whose two calls more cost as much as all of this
        self.key: int = cast("int", storage._weak_ref())
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self.role = role
        self.unit = unit
        self.tier = tier
        self.thread = threading.get_ident()
        self.is_left = False

    def __del__(self, free: Callable[[int], None] = _free_weak_ref) -> None:
        free(self.key)

    def is_alive(self) -> bool:
        """Whether the storage is still there; any thread may ask."""
        return not torch.UntypedStorage._expired(self.key)

    def bytes(self) -> int | None:
        """What the storage occupies now; None if it is gone.

        This refers to the storage for a moment, so only the thread that computes may ask.
        """
        storage = torch.UntypedStorage._new_with_weak_ptr(self.key)
        return None if storage is None else storage.nbytes()


class HeldStorages:
    """All that was said and is still alive. Safe to use from several threads.

    Attributes:
        files_version: changes whenever something is said of a file.
    """

    def __init__(self) -> None:
        self.files_version = 0
        self._journals: tuple[deque[HeldStorage], ...] = ()
        self._held: dict[int, HeldStorage] = {}
        self._files: dict[str, tuple[Role, str, int]] = {}
        self._lock = threading.Lock()
        self._clean_at = _FIRST_CLEANING

    def hold(
        self,
        tensor: torch.Tensor,
        role: Role,
        unit: str,
        tier: Tier = Tier.DEVICE,
        *,
        is_found: bool = False,
    ) -> None:
        """Say what a tensor's storage is for; the last word on it counts.

        Args:
            is_found: the tracer found it out, so the next trace must find it again.
        """
        storage = storage_of(tensor)
        if storage is not None:
            self._add(HeldStorage(storage, tensor, role, unit, tier), is_found=is_found)

    def find_out(
        self, storage: torch.UntypedStorage, tensor: torch.Tensor, role: Role, unit: str
    ) -> HeldStorage:
        """The tracer found out what the storage of a tensor on the device is for."""
        held = HeldStorage(storage, tensor, role, unit)
        self._add(held, is_found=True)
        return held

    def _add(self, held: HeldStorage, *, is_found: bool) -> None:
        held.is_left = is_found
        with self._lock:
            self._held[held.key] = held
            for journal in self._journals:
                journal.append(held)
            if len(self._held) >= self._clean_at:
                self._held = {k: one for k, one in self._held.items() if one.is_alive()}
                self._clean_at = max(_FIRST_CLEANING, 2 * len(self._held))

    def hold_file(self, name: str, role: Role, unit: str, num_bytes: int) -> None:
        """Say what a file is for and how much of it; 0 bytes if it is gone."""
        with self._lock:
            if num_bytes:
                self._files[name] = (role, unit, num_bytes)
            else:
                self._files.pop(name, None)
            self.files_version += 1

    def files(self) -> list[tuple[Role, str, int]]:
        """Role, unit and bytes of every file."""
        with self._lock:
            return list(self._files.values())

    def get(self, storage: torch.UntypedStorage) -> HeldStorage | None:
        """What was said of a living storage."""
        # an entry's weak reference sees to it that no other storage has this address
        return self._held.get(storage._cdata)

    def find(self, key: int) -> HeldStorage | None:
        """What was said of the storage with this key, which may be gone since."""
        return self._held.get(key)

    def drop(self, held: HeldStorage) -> None:
        """Forget a storage that is gone."""
        with self._lock:
            if self._held.get(held.key) is held:
                del self._held[held.key]

    def listen(self) -> deque[HeldStorage]:
        """A journal of all that was said, to which is added what will be."""
        with self._lock:
            journal = deque(self._held.values())
            self._journals = (*self._journals, journal)
        return journal

    def stop_listening(self, journal: deque[HeldStorage]) -> None:
        """Add no more to a journal."""
        with self._lock:
            self._journals = tuple(one for one in self._journals if one is not journal)

    def release(self, tensor: torch.Tensor) -> None:
        """Say that whom a tensor's storage served is gone: the next trace will not count it."""
        storage = storage_of(tensor)
        held = None if storage is None else self.get(storage)
        if held is not None:
            held.is_left = True

    def sweep(self) -> None:
        """Forget what was let go of: a trace begins."""
        with self._lock:
            self._held = {key: held for key, held in self._held.items() if not held.is_left}

    @contextmanager
    def apart(self) -> Iterator[None]:
        """What was said before is set aside meanwhile: none of it is of a rank stood in for."""
        with self._lock:
            before = self._held, self._files
            self._held, self._files = {}, {}
            self.files_version += 1
        try:
            yield
        finally:
            with self._lock:
                self._held, self._files = before
                self.files_version += 1

    def __iter__(self) -> Iterator[HeldStorage]:
        """Everything, alive or not, in the order in which it was first said."""
        with self._lock:
            return iter(list(self._held.values()))


holdings = HeldStorages()
"""Of this process."""

hold = holdings.hold
hold_file = holdings.hold_file
release = holdings.release


def bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """All bytes of a storage, as a tensor of them."""
    whole: Any = torch.empty(0, dtype=torch.uint8, device=storage.device)
    viewed: torch.Tensor = whole.set_(storage, 0, (storage.nbytes(),))
    return viewed


def key_of(storage: torch.UntypedStorage) -> int:
    """What identifies a storage as long as it is alive."""
    key: int = storage._cdata
    return key


def references_to(tensor: torch.Tensor) -> int:
    """How many references to a tensor itself there are, in Python and in PyTorch.

    A backend's thread gives back PyTorch's first, and Python's as soon as it has Python's lock.
    """
    in_pytorch: int = _TENSOR._use_count(tensor)
    return in_pytorch + sys.getrefcount(tensor)


def is_same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors begin at one place. A fake tensor has that, and no address."""
    same = key_of(one.untyped_storage()) == key_of(other.untyped_storage())
    return same and _begin(one) == _begin(other)


def _begin(tensor: torch.Tensor) -> int:
    """Bytes from its storage's beginning to its own."""
    return int(tensor.storage_offset()) * tensor.element_size()


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """A tensor's storage; None if it has none of its own (sparse, batched, meta, a lazy one)."""
    if tensor.is_meta:
        return None
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError, ValueError):
        return None
