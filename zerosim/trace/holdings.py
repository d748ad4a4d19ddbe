"""The roles of storages, as declared by the code that allocates them.

    hold(tensor, role, unit)     this tensor's storage is a unit's gradient, shard, momentum ...
    release(tensor)              its owner is gone
    hold_file(name, ...)         a file holds this many bytes of a unit; 0 when it is removed

A role is a label, like those in `labels`, and contains no size. The bytes are read from the storage
itself while it exists; nothing here keeps it alive. A declaration costs about a microsecond and is
made whether a trace is recorded or not, so a trace can begin late.
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
"""Tensors with their own storage. A fake tensor's storage has a size, but no memory."""
_FIRST_CLEANING = 256
"""At this many entries, those of dead storages are first dropped."""

_TENSOR: Any = torch.Tensor
_free_weak_ref = torch.UntypedStorage._free_weak_ref


class HeldStorage:
    """One storage and its role.

    Attributes:
        key: identifies the storage as long as this entry exists.
        dtype, shape: of the declared tensor.
        tier: the tier in which it resides.
        thread: the thread that declared it, hence allocated it.
        is_left: its owner is gone, or never declared it; it counts until the current trace ends.
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
        # like `StorageWeakRef`, whose two extra calls would double the cost
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
        """Whether the storage still exists; any thread may call this."""
        return not torch.UntypedStorage._expired(self.key)

    def bytes(self) -> int | None:
        """Current size of the storage; None if it is gone.

        This briefly keeps a reference to the storage, so only the computing thread may call it.
        """
        storage = torch.UntypedStorage._new_with_weak_ptr(self.key)
        return None if storage is None else storage.nbytes()


class HeldStorages:
    """All declared storages that are still alive. Thread-safe.

    Attributes:
        files_version: changes with every declaration of a file.
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
        """Declare the role of a tensor's storage; the latest declaration applies.

        Args:
            is_found: the tracer inferred the role, so the next trace must infer it again.
        """
        storage = storage_of(tensor)
        if storage is not None:
            self._add(HeldStorage(storage, tensor, role, unit, tier), is_found=is_found)

    def find_out(
        self, storage: torch.UntypedStorage, tensor: torch.Tensor, role: Role, unit: str
    ) -> HeldStorage:
        """Register the role that the tracer inferred for the storage of a tensor on the device."""
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
        """Declare the role of a file and its bytes; 0 bytes if the file is gone."""
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
        """The declaration of a live storage."""
        # an entry's weak reference ensures that no other storage has this address
        return self._held.get(storage._cdata)

    def find(self, key: int) -> HeldStorage | None:
        """The declaration of the storage with this key, which may have been freed since."""
        return self._held.get(key)

    def drop(self, held: HeldStorage) -> None:
        """Forget a storage that is gone."""
        with self._lock:
            if self._held.get(held.key) is held:
                del self._held[held.key]

    def listen(self) -> deque[HeldStorage]:
        """A journal of all declarations so far, to which later ones are appended."""
        with self._lock:
            journal = deque(self._held.values())
            self._journals = (*self._journals, journal)
        return journal

    def stop_listening(self, journal: deque[HeldStorage]) -> None:
        """Stop appending to a journal."""
        with self._lock:
            self._journals = tuple(one for one in self._journals if one is not journal)

    def release(self, tensor: torch.Tensor) -> None:
        """Declare that a tensor's storage has lost its owner: the next trace will not count it."""
        storage = storage_of(tensor)
        held = None if storage is None else self.get(storage)
        if held is not None:
            held.is_left = True

    def sweep(self) -> None:
        """A trace begins: forget released storages."""
        with self._lock:
            self._held = {key: held for key, held in self._held.items() if not held.is_left}

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Set earlier declarations aside inside: none of them belongs to the simulated rank."""
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
        """All entries, alive or not, in the order of their first declaration."""
        with self._lock:
            return iter(list(self._held.values()))


holdings = HeldStorages()
"""The declared storages of this process."""

hold = holdings.hold
hold_file = holdings.hold_file
release = holdings.release


def bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """All bytes of a storage, as a uint8 tensor."""
    whole: Any = torch.empty(0, dtype=torch.uint8, device=storage.device)
    viewed: torch.Tensor = whole.set_(storage, 0, (storage.nbytes(),))
    return viewed


def key_of(storage: torch.UntypedStorage) -> int:
    """Identifies a storage as long as it is alive."""
    key: int = storage._cdata
    return key


def references_to(tensor: torch.Tensor) -> int:
    """Number of references to the tensor object itself, in Python and in PyTorch.

    A backend's thread drops PyTorch's reference first, and Python's as soon as it holds the GIL.
    """
    in_pytorch: int = _TENSOR._use_count(tensor)
    return in_pytorch + sys.getrefcount(tensor)


def is_same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors begin at the same place in memory; fake tensors have no address."""
    same = key_of(one.untyped_storage()) == key_of(other.untyped_storage())
    return same and _begin(one) == _begin(other)


def _begin(tensor: torch.Tensor) -> int:
    """The tensor's offset in its storage, in bytes."""
    return int(tensor.storage_offset()) * tensor.element_size()


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """A tensor's storage; None if it has none of its own (sparse, batched, meta, a lazy one)."""
    if tensor.is_meta:
        return None
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError, ValueError):
        return None
