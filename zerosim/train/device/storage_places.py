"""The addresses of storages in a device's memory, and maps of them.

A storage's range is freed with the storage, whatever held the last reference: autograd, a thread, a
list. The role of a range is looked up when a map is drawn.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter, deque
from collections.abc import Iterable

import torch

from zerosim.schema.events import Phase
from zerosim.schema.memory import AddressBlock, AddressMap, MapMoment, Role
from zerosim.trace import labels
from zerosim.trace.address_maps import purpose_of
from zerosim.trace.holdings import key_of
from zerosim.trace.sink import Position
from zerosim.train.device.space import AddressSpace, rounded

Drawn = list[tuple[int, int, Role, str]]
"""Offset, bytes, role and unit of every place at one moment."""


class _StoragePlace(weakref.ref[torch.UntypedStorage]):
    """The address range of a storage, and its role at the last lookup."""

    __slots__ = ("key", "num_bytes", "offset", "purpose")

    key: int
    offset: int
    num_bytes: int
    purpose: tuple[Role, str]


_UNKNOWN = (Role.OTHER, "")


class StoragePlaces:
    """Assigns address ranges to storages and frees them. Thread-safe.

    Attributes:
        space: the addresses.
        peak_bytes: the peak of the bytes in use.
    """

    def __init__(self, limit_bytes: int) -> None:
        """Create an empty set of storages."""
        self.space = AddressSpace(limit_bytes)
        self.peak_bytes = 0
        self._places: dict[int, _StoragePlace] = {}
        self._reserved: dict[int, tuple[Role, str]] = {}
        self._gone: deque[_StoragePlace] = deque()
        self._lock = threading.RLock()
        self._top_bytes = 0
        self._peak: tuple[Position, int, Drawn] | None = None
        self._full: tuple[Position, int, Drawn] | None = None

    def has(self, storage: torch.UntypedStorage) -> bool:
        """Whether this storage has a range, or had one before it was emptied."""
        with self._lock:
            self._settle()
            return key_of(storage) in self._places

    def take(self, storage: torch.UntypedStorage) -> bool:
        """Give a storage a range of its current size, and free its previous one.

        Returns:
            False if there is no room; then the storage has no range.
        """
        with self._lock:
            self._settle()
            key = key_of(storage)
            place = self._places.get(key)
            if place is None:
                place = self._places[key] = _StoragePlace(storage, self._gone.append)
                place.key, place.num_bytes, place.purpose = key, 0, _UNKNOWN
            needed = storage.nbytes()
            if rounded(needed) == place.num_bytes:
                return True
            self._vacate(place)
            if needed:
                offset = self.space.take(needed)
                if offset is None:
                    self._full = self._now(refresh=True)
                    return False
                place.offset, place.num_bytes = offset, rounded(needed)
                self.peak_bytes = max(self.peak_bytes, self.space.used_bytes)
            return True

    def reserve(self, storage: torch.UntypedStorage, role: Role, unit: str) -> None:
        """Set the role of a storage without an entry in the ledger: an arena."""
        with self._lock:
            self._reserved[key_of(storage)] = (role, unit)

    def used_bytes_by_role(self) -> Counter[Role]:
        """Bytes in use, by role."""
        counted: Counter[Role] = Counter()
        with self._lock:
            self._settle()
            for _, num_bytes, role, _ in self._draw(refresh=True):
                counted[role] += num_bytes
        return counted

    def allocated_bytes(self) -> int:
        """Bytes in use, without rounding."""
        with self._lock:
            self._settle()
            alive = (place() for place in self._places.values())
            return sum(storage.nbytes() for storage in alive if storage is not None)

    def maps(self, position: Position) -> list[AddressMap]:
        """See `trace.address_maps.AddressMapper`."""
        with self._lock:
            self._settle()
            self._notice_peak()
            found = []
            if self._peak is not None and _is_over(self._peak[0], position):
                if self._peak[0].phase is not Phase.OUTSIDE:
                    found.append(self._map(MapMoment.PEAK, *self._peak))
                self._peak, self._top_bytes = None, 0
            if self._full is not None:
                found.append(self._map(MapMoment.FULL, *self._full))
                self._full = None
            _, time_ns, drawn = self._now(refresh=True)
            found.append(self._map(MapMoment.PHASE, position, time_ns, drawn))
            return found

    def _vacate(self, place: _StoragePlace) -> None:
        if place.num_bytes:
            self._notice_peak()
            self.space.give(place.offset)
            place.num_bytes = 0

    def _settle(self) -> None:
        """Reclaim the ranges of freed storages."""
        while self._gone:
            place = self._gone.popleft()
            self._vacate(place)
            self._reserved.pop(place.key, None)
            del self._places[place.key]

    def _notice_peak(self) -> None:
        """A range is about to be freed: draw a map if this is the peak."""
        if self.space.used_bytes > self._top_bytes:
            self._top_bytes = self.space.used_bytes
            self._peak = self._now(refresh=False)

    def _now(self, *, refresh: bool) -> tuple[Position, int, Drawn]:
        sink = labels.attached()
        time_ns = 0 if sink is None else sink.now_ns()
        return labels.position(), time_ns, self._draw(refresh=refresh)

    def _draw(self, *, refresh: bool) -> Drawn:
        """Every range, with roles looked up again if unknown, or for all."""
        drawn = []
        for place in self._places.values():
            if place.num_bytes:
                if refresh or place.purpose is _UNKNOWN:
                    place.purpose = self._reserved.get(place.key) or purpose_of(place.key)
                    if place.purpose[0] is Role.OTHER:
                        place.purpose = _UNKNOWN
                drawn.append((place.offset, place.num_bytes, *place.purpose))
        return drawn

    def _map(self, moment: MapMoment, position: Position, time_ns: int, drawn: Drawn) -> AddressMap:
        return AddressMap(
            moment=moment,
            iteration=position.iteration,
            micro_step=position.micro_step,
            phase=position.phase,
            time_ns=time_ns,
            limit_bytes=self.space.limit_bytes,
            blocks=tuple(_merged(sorted(drawn))),
        )


def _is_over(drawn: Position, now: Position) -> bool:
    return now.iteration != drawn.iteration or now.phase is Phase.OUTSIDE


def _merged(drawn: Iterable[tuple[int, int, Role, str]]) -> list[AddressBlock]:
    """Blocks in the order of their addresses; neighbours of the same purpose are one."""
    blocks: list[AddressBlock] = []
    for offset, num_bytes, role, unit in drawn:
        last = blocks[-1] if blocks else None
        if last is not None and (last.offset + last.bytes, last.role, last.unit) == (
            offset,
            role,
            unit,
        ):
            blocks[-1] = AddressBlock(last.offset, last.bytes + num_bytes, role, unit)
        else:
            blocks.append(AddressBlock(offset, num_bytes, role, unit))
    return blocks
