"""What storages are kept for, as those who allocate them say.

    hold(tensor, role, unit)     this tensor's storage is a unit's gradient, shard, momentum ...
    release(tensor)               and whom it served is gone
    hold_file(name, ...)         a file holds so many bytes of a unit; 0 when it is removed

A label, like those in `labels`: it says what a storage is for and never how large it is. The bytes
are read from the storage itself, for as long as it lives; nothing here keeps it alive. Saying it
costs about a microsecond, whether a trace is recorded or not, so that a trace may begin late.
Imports torch and zerosim's L0.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from zerosim.memory import Role
from zerosim.tiers import Tier

_FIRST_CLEANING = 256
"""With so many entries those of dead storages are dropped for the first time."""


class HeldStorage:
    """One storage and what it is for.

    Attributes:
        key: identifies the storage as long as this entry exists.
        tier: where it lies.
        thread: the one that said so, hence that allocated it.
        is_left: its owner is gone, or never said so; it counts until the trace that is being
            recorded ends.
    """

    __slots__ = ("_reference", "is_left", "key", "role", "thread", "tier", "unit")

    def __init__(
        self, storage: torch.UntypedStorage, role: Role, unit: str, tier: Tier = Tier.DEVICE
    ) -> None:
        self._reference = StorageWeakRef(storage)
        self.key: int = self._reference.cdata
        self.role = role
        self.unit = unit
        self.tier = tier
        self.thread = threading.get_ident()
        self.is_left = False

    def is_alive(self) -> bool:
        """Whether the storage is still there; any thread may ask."""
        return not self._reference.expired()

    def bytes(self) -> int | None:
        """What the storage occupies now; None if it is gone.

        This refers to the storage for a moment, so only the thread that computes may ask.
        """
        storage = torch.UntypedStorage._new_with_weak_ptr(self.key)
        return None if storage is None else storage.nbytes()


class HeldStorages:
    """All that was said and is still alive. Safe to use from several threads.

    Attributes:
        version: changes whenever something new is said.
    """

    def __init__(self) -> None:
        self.version = 0
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
        if storage is None:
            return
        held = HeldStorage(storage, role, unit, tier)
        held.is_left = is_found
        with self._lock:
            self._held[held.key] = held
            self.version += 1
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
            self.version += 1

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

    def drop(self, key: int) -> None:
        """Forget a storage that is gone."""
        with self._lock:
            self._held.pop(key, None)

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
            self.version += 1

    def __iter__(self) -> Iterator[HeldStorage]:
        """Everything, alive or not, in the order in which it was first said."""
        with self._lock:
            return iter(list(self._held.values()))


holdings = HeldStorages()
"""Of this process."""

hold = holdings.hold
hold_file = holdings.hold_file
release = holdings.release


def key_of(storage: torch.UntypedStorage) -> int:
    """What identifies a storage as long as it is alive."""
    key: int = storage._cdata
    return key


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """A tensor's storage; None if it has none of its own (sparse, batched, meta, a lazy one)."""
    if tensor.is_meta:
        return None
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError, ValueError):
        return None
