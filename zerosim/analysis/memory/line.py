"""The memory of one rank in one tier over time: bytes by role at each sample, as arrays.

A sample has the changes, so the state at a sample is the last value of each (role, unit).
`timeline` converts a rank's samples to arrays, one column per sample, in linear time. For the
device, the count of PyTorch's allocator is recorded as well; the part that the roles do not explain
is `other`. On a machine without a GPU that count covers the whole process: known host
memory is subtracted, and `other` may be on either. No torch.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zerosim.base.tiers import Tier
from zerosim.record import RankTrace
from zerosim.schema.events import Event, Kind
from zerosim.schema.memory import MODEL_STATES, MemorySample, Role

Bytes = NDArray[np.int64]
Holders = dict[tuple[Role, str], int]
Changes = dict[tuple[Role, str], tuple[Bytes, Bytes]]

ROLES = tuple(role for role in Role if role is not Role.OTHER)
"""The recorded roles, in display order."""
NOT_MEASURED = -1
"""Marks a missing allocator count in an array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The memory of one rank in one tier, at each of its samples.

    Attributes:
        samples: by number; over all tiers.
        events: the events of samples, by id.
        by_role: shape (number of `ROLES`, number of samples).
        known: all roles together at each sample.
        allocated: live bytes by the allocator's count, including those from before the
            recording and without `beside`; `NOT_MEASURED` where it was not queried, and outside the
            device. A GPU's allocator is queried at phase borders; between them, the bytes without a
            role are those of the last border. For a program whose allocator was not queried: the
            roles and all other tensors that Python's objects refer to, as last sampled.
        was_asked: whether `allocated` is the allocator's count.
        between: the allocator's peak since the previous sample with a count, including `beside`.
        beside: bytes of roles on the host that the allocator's count includes.
        holders: for each role and unit the samples that changed it, and the new bytes.
        roleless: the same for memory without a role, by dtype and shape.
    """

    rank: int
    tier: Tier
    samples: tuple[MemorySample, ...]
    events: dict[int, Event]
    by_role: Bytes
    known: Bytes
    allocated: Bytes
    between: Bytes
    beside: Bytes
    holders: Changes
    roleless: Changes
    was_asked: bool

    def at(self, position: int) -> Holders:
        """Live bytes at a sample, by role and unit; empty before the first one.

        Args:
            position: number of the sample; -1 for before all of them.
        """
        return _state_at(self.holders, position)

    def roleless_at(self, position: int) -> dict[str, int]:
        """Memory without a role at a sample, by dtype and shape; "" for many small ones."""
        return {kind: size for (_, kind), size in _state_at(self.roleless, position).items()}

    def roles_at(self, position: int) -> dict[Role, int]:
        """Bytes of each recorded role at a sample."""
        return {role: int(self.by_role[row, position]) for row, role in enumerate(ROLES)}

    def event_of(self, position: int) -> Event | None:
        """The event of a sample, at its start or end."""
        number = self.samples[position].event
        return None if number is None else self.events[number]

    def is_beside(self, position: int) -> bool:
        """True if the thread of the collectives took this sample, concurrently with computation.

        Such a sample may mix two moments: freed memory and its replacement.
        """
        event = self.event_of(position)
        return event is not None and event.kind is not Kind.COMPUTE

    @property
    def is_measured(self) -> bool:
        """True if the allocator was queried at some sample."""
        return self.was_asked

    def other(self, position: int) -> int | None:
        """The unexplained bytes at a sample; None if not measured.

        Negative if another thread allocated memory outside of the allocator's record.
        """
        allocated = int(self.allocated[position])
        return None if allocated == NOT_MEASURED else allocated - int(self.known[position])

    def alive(self) -> Bytes:
        """All live bytes at each sample: the roles, and the allocator's further bytes.

        It is queried on the computing thread only; elsewhere only the roles are known.
        """
        return np.maximum(self.known, self.allocated)

    def model_states(self) -> Bytes:
        """The model states together at each sample."""
        rows = [ROLES.index(role) for role in MODEL_STATES]
        return np.asarray(self.by_role[rows].sum(axis=0), dtype=np.int64)


def _state_at(changes: Changes, position: int) -> Holders:
    state: Holders = {}
    for place, (numbers, sizes) in changes.items():
        index = int(np.searchsorted(numbers, position, side="right")) - 1
        if index >= 0 and sizes[index]:
            state[place] = int(sizes[index])
    return state


def tiers_of(rank: RankTrace) -> tuple[Tier, ...]:
    """The tiers in which a rank had anything, the device first; it is always present."""
    found = {holding.tier for sample in rank.memory_samples for holding in sample.changes}
    return tuple(tier for tier in Tier if tier is Tier.DEVICE or tier in found)


def timeline(rank: RankTrace, tier: Tier = Tier.DEVICE) -> Timeline:
    """One rank's memory in one tier over time.

    Args:
        rank: with at least one memory sample.
        tier: the device's memory by default.
    """
    samples = rank.memory_samples
    changes = _changes(samples, tier)
    roleless = {place: changes.pop(place) for place in list(changes) if place[0] is Role.OTHER}
    holders = changes
    by_role = _by_role(holders, len(samples))
    wanted = {sample.event for sample in samples if sample.event is not None}
    beside = np.zeros(len(samples), dtype=np.int64)
    allocated, between = _not_measured(samples), _not_measured(samples)
    if tier is Tier.DEVICE:
        on_host = _by_role(_changes(samples, Tier.HOST), len(samples)).sum(axis=0)
        _count(rank, allocated, between, beside, on_host)
    known = np.asarray(by_role.sum(axis=0), dtype=np.int64)
    was_asked = bool((allocated != NOT_MEASURED).any())
    if roleless and not was_asked:
        _add_roleless(allocated, known, roleless)
    elif rank.header.device != "cpu":
        _go_on(allocated, known)
        _meet_peaks(allocated, known, samples)
    return Timeline(
        rank=rank.rank,
        tier=tier,
        samples=samples,
        events={event.id: event for event in rank.events if event.id in wanted},
        by_role=by_role,
        known=known,
        allocated=allocated,
        between=between,
        beside=beside,
        holders=holders,
        roleless=roleless,
        was_asked=was_asked,
    )


def _changes(samples: tuple[MemorySample, ...], tier: Tier) -> Changes:
    """For each role and unit of a tier the samples that changed it, and the new bytes."""
    found: dict[tuple[Role, str], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for number, sample in enumerate(samples):
        for holding in sample.changes:
            if holding.tier is tier:
                numbers, sizes = found[holding.role, holding.unit]
                numbers.append(number)
                sizes.append(holding.bytes)
    return {place: (_array(numbers), _array(sizes)) for place, (numbers, sizes) in found.items()}


def _by_role(holders: Changes, num_samples: int) -> Bytes:
    by_role = np.zeros((len(ROLES), num_samples), dtype=np.int64)
    for (role, _), (places, held) in holders.items():
        if role in ROLES:
            np.add.at(by_role[ROLES.index(role)], places, np.diff(held, prepend=0))
    return np.asarray(by_role.cumsum(axis=1), dtype=np.int64)


def _array(numbers: list[int]) -> Bytes:
    return np.array(numbers, dtype=np.int64)


def _not_measured(samples: tuple[MemorySample, ...]) -> Bytes:
    return np.full(len(samples), NOT_MEASURED, dtype=np.int64)


def _count(
    rank: RankTrace, allocated: Bytes, between: Bytes, beside: Bytes, on_host: Bytes
) -> None:
    """Fill in the allocator's counts: the device's own, or PyTorch's record on the CPU.

    A device's allocator counts for all threads, and from the process's start: only PyTorch's record
    is incomplete.

    Args:
        allocated, between, beside: see `Timeline`; not measured, and 0, so far.
        on_host: bytes of roles on the host, at each sample.
    """
    unrecorded = _array([sample.unrecorded_bytes for sample in rank.memory_samples])
    most = 0
    for number, sample in enumerate(rank.memory_samples):
        if sample.allocated_bytes is not None:
            allocated[number] = sample.allocated_bytes
        if sample.peak_bytes is not None:
            if sample.peak_bytes > most:  # it was reached since the previous border
                between[number] = sample.peak_bytes
            most = sample.peak_bytes
    for row in rank.allocations:  # these count the whole process
        numbers = _array(list(row.numbers))
        beside[numbers] = on_host[numbers]
        counted = _array(list(row.allocated_bytes)) + unrecorded[numbers]
        allocated[numbers] = counted - beside[numbers]
        between[numbers] = _array(list(row.peak_bytes)) + unrecorded[numbers]


def _add_roleless(allocated: Bytes, known: Bytes, roleless: Changes) -> None:
    """From the first search on, memory without a role is added to that of the roles."""
    more = np.zeros(len(known), dtype=np.int64)
    for places, held in roleless.values():
        np.add.at(more, places, np.diff(held, prepend=0))
    first = min(int(places[0]) for places, _ in roleless.values())
    allocated[first:] = (known + more.cumsum())[first:]


def _meet_peaks(allocated: Bytes, known: Bytes, samples: tuple[MemorySample, ...]) -> None:
    """Between two borders, live bytes do not exceed the allocator's peak at the second one.

    Where that peak grew, the highest sample between them gets its value: roles follow storages,
    which the allocator rounds up to 512 B each, and lack memory that an operator frees again.
    """
    begin, most = 0, 0
    for border, sample in enumerate(samples):
        if sample.peak_bytes is None:
            continue
        inside = allocated[begin:border]
        if sample.peak_bytes >= most:  # otherwise the program reset it in between
            np.minimum(inside, sample.peak_bytes, out=inside)
        if 0 < most < sample.peak_bytes and len(inside):
            highest = begin + int(np.maximum(inside, known[begin:border]).argmax())
            allocated[highest] = sample.peak_bytes
        begin, most = border + 1, sample.peak_bytes


def _go_on(allocated: Bytes, known: Bytes) -> None:
    """Between borders, bytes of roles follow their storages, and the rest is constant."""
    asked = np.flatnonzero(allocated != NOT_MEASURED)
    if not len(asked):
        return
    last = np.searchsorted(asked, np.arange(len(allocated)), side="right") - 1
    rest = allocated[asked] - known[asked]
    inside = last >= 0
    allocated[inside] = (known + rest[np.maximum(last, 0)])[inside]
