"""Bytes of live storages, by role, unit and tier, updated from recorded changes.

    registered    `holdings` keeps a journal of new storages
    freed         a weak reference calls back when a storage is freed
    resized       `resizes` reports what frameworks resize; a phase boundary checks the rest

If this version of PyTorch makes no such callback, every update checks every storage. Only the
computing thread may update the bytes.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from zerosim.base.tiers import Tier
from zerosim.schema.memory import Role
from zerosim.trace import resizes
from zerosim.trace.holdings import HeldStorage, HeldStorages

Place = tuple[Role, str, Tier]
State = dict[Place, int]
"""Bytes by role, unit and tier."""

_RESIZED = (Role.GATHERED, Role.BUFFERS, Role.CHECKPOINTS)
"""Roles of storages that frameworks free and refill."""


class _Counted(weakref.ref[Any]):
    """A live storage, as it was when last checked.

    Attributes:
        is_unrecorded: the allocator's record omits it.
    """

    __slots__ = ("bytes", "held", "is_unrecorded", "place")

    held: HeldStorage
    place: Place
    bytes: int
    is_unrecorded: bool


class AliveStorages:
    """The registered storages that are live.

    Attributes:
        state: bytes by place; 0 for a place that has become empty.
        changed: places whose bytes may have changed since this set was last emptied.
        not_recorded: storages that the allocator's record omits, by key, besides those allocated by
            another thread.
        unrecorded_bytes: bytes of both kinds of omitted storages.
    """

    def __init__(self, holdings: HeldStorages) -> None:
        """Begin with all storages registered so far."""
        self.state: State = {}
        self.changed: set[Place] = set()
        self.not_recorded: dict[int, StorageWeakRef] = {}
        self.unrecorded_bytes = 0
        self._holdings = holdings
        self._thread = threading.get_ident()
        self._counted: dict[int, _Counted] = {}
        self._gone: deque[Any] = deque()
        self._files: State = {}
        self._files_version = -1
        self._said = holdings.listen()
        self._resized = resizes.listen()

    def __len__(self) -> int:
        """Number of live storages."""
        return len(self._counted)

    def close(self) -> None:
        """Stop listening to registrations and resizes."""
        self._holdings.stop_listening(self._said)
        resizes.stop_listening(self._resized)

    def bring_up_to_date(self, *, wholly: bool) -> None:
        """Apply the recorded changes.

        Args:
            wholly: check the size of every storage, not only of those reported as resized.
        """
        while self._gone:
            self._forget(self._gone.popleft())
        while self._said:
            self._take_in(self._said.popleft())
        if wholly or not _TELLS:
            self._resized.clear()
            self._ask(list(self._counted.values()))
        elif self._resized:
            self._ask(self._told())
        if self._files_version != self._holdings.files_version:
            self._count_files()

    def add(self, place: Place, num_bytes: int) -> None:
        """Add bytes to a place."""
        self.state[place] = self.state.get(place, 0) + num_bytes
        self.changed.add(place)

    def may_grow(self, held: HeldStorage) -> None:
        """A collective was passed this storage, which may have been resized for the call."""
        self._resized.add(held.key)

    def _told(self) -> list[_Counted]:
        """The storages reported as resized, if their role is one that frameworks resize."""
        keys = {self._resized.pop() for _ in range(len(self._resized))}
        found = [one for key in keys if (one := self._counted.get(key)) is not None]
        return [one for one in found if one.place[0] in _RESIZED]

    def _ask(self, asked: list[_Counted]) -> None:
        peek = torch.UntypedStorage._new_with_weak_ptr
        others = [
            one
            for one in asked
            if (storage := one() if _TELLS else peek(one.held.key)) is None
            or storage.nbytes() != one.bytes
        ]
        for one in others:
            storage = peek(one.held.key)
            if storage is None:
                self._forget(one)
            else:
                self._grow(one, storage.nbytes() - one.bytes)

    def _take_in(self, held: HeldStorage) -> None:
        storage = torch.UntypedStorage._new_with_weak_ptr(held.key)
        if storage is None or self._holdings.find(held.key) is not held:
            self._holdings.drop(held)
            return
        before = self._counted.get(held.key)
        if before is not None:
            self._leave_out(before)
        one = _Counted(storage, self._gone.append if _TELLS else None)
        one.held, one.place, one.bytes = held, (held.role, held.unit, held.tier), 0
        one.is_unrecorded = held.thread != self._thread or held.key in self.not_recorded
        self._counted[held.key] = one
        self._grow(one, storage.nbytes())

    def _forget(self, one: _Counted) -> None:
        """Remove a storage that was freed."""
        key = one.held.key
        if self._counted.get(key) is one:
            self._leave_out(one)
            if self.not_recorded:
                self.not_recorded.pop(key, None)
        self._holdings.drop(one.held)

    def _leave_out(self, one: _Counted) -> None:
        del self._counted[one.held.key]
        self._grow(one, -one.bytes)

    def _grow(self, one: _Counted, num_bytes: int) -> None:
        one.bytes += num_bytes
        if one.is_unrecorded:
            self.unrecorded_bytes += num_bytes
        self.add(one.place, num_bytes)

    def _count_files(self) -> None:
        self._files_version = self._holdings.files_version
        for place, num_bytes in self._files.items():
            self.add(place, -num_bytes)
        self._files = {}
        for role, unit, num_bytes in self._holdings.files():
            place = (role, unit, Tier.DISK)
            self._files[place] = self._files.get(place, 0) + num_bytes
            self.add(place, num_bytes)


def _tells_of_an_end() -> bool:
    """Whether a weak reference to a storage lives as long as the storage, even one kept by C++."""
    said: list[Any] = []
    tensor = torch.zeros(1, device="cpu")
    kept = weakref.ref(tensor.untyped_storage(), said.append)
    view = tensor.view(1, 1)
    del tensor
    is_kept = kept() is not None and not said
    del view
    return is_kept and bool(said)


_TELLS = _tells_of_an_end()
