"""Live storages without a declared role: tensors that Python objects refer to.

On CUDA the allocator reports live bytes, and in runs of zerosim's engine PyTorch's record of
allocations does. In other programs on the CPU that record would conflict with the program's own
profilers. The tensors known to the garbage collector are inspected instead, in a few iterations and
at the phase borders with the most live memory. Tensors that only C++ refers to are not seen, nor
are those created before the trace.

A process that has imported PyTorch has 300,000 objects, and listing them takes 30 ms. They are
listed once, when the trace begins; from then on each tensor is found while it is young, before the
collector moves it to the old generation.
"""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef

from zerosim.schema.events import Phase
from zerosim.trace.holdings import PLAIN, HeldStorages, storage_of
from zerosim.trace.sink import Position
from zerosim.trace.threads import is_computing

_LOOKED_AT = (Phase.BACKWARD, Phase.UPDATE)
_YOUNG = (0, 1)
"""Generations of the collector with few objects."""
_FIRST_CLEANING = 1024
"""At this many references, those to freed tensors are first dropped."""
_MOST_KINDS = 32
"""After this many kinds, the bytes of further ones are counted together."""


class _Found(NamedTuple):
    """A storage without a role, and the dtype and shape of a tensor that has it."""

    reference: StorageWeakRef
    kind: str


class RolelessStorages:
    """Looks for storages that have no declared role and were not saved by autograd."""

    def __init__(self, holdings: HeldStorages, saved_for: Callable[[int], str | None]) -> None:
        """Remember the existing storages: they are not counted.

        Args:
            saved_for: the unit for which autograd keeps the storage of a key; None if it does not.
        """
        self._holdings = holdings
        self._saved_for = saved_for
        self._tensors = _Tensors()
        self._before = _storages(self._tensors)
        self._found: dict[int, _Found] = {}
        self._kinds: set[str] = set()
        self._said: Counter[str] = Counter()

    def look(self, position: Position) -> bool:
        """Search at a phase border; returns whether this border is one of those to search at.

        The interval between searches doubles each time, in iterations.
        """
        number = position.iteration
        if number < 0 or number & (number - 1) or position.phase not in _LOOKED_AT:
            return False
        for tensor in self._tensors:
            storage = storage_of(tensor)
            if storage is None or tensor.device.type != "cpu" or type(tensor) is FakeTensor:
                continue
            key = storage._cdata
            before = self._before.get(key)
            is_new = key not in self._found and (before is None or before.expired())
            if is_new and storage.nbytes() and not self._has_role(storage):
                self._found[key] = _Found(StorageWeakRef(storage), self._kind(tensor))
        return True

    def close(self) -> None:
        """Stop looking."""
        self._tensors.close()

    def grown(self) -> dict[str, int]:
        """Change in the bytes of each kind since the last call."""
        now: Counter[str] = Counter()
        for key, found in list(self._found.items()):
            storage = torch.UntypedStorage._new_with_weak_ptr(key)
            if storage is None:
                del self._found[key]
            elif not self._has_role(storage):
                now[found.kind] += storage.nbytes()
        said, self._said = self._said, now
        grown = {kind: now[kind] - said[kind] for kind in now.keys() | said.keys()}
        return {kind: more for kind, more in grown.items() if more}

    def _has_role(self, storage: torch.UntypedStorage) -> bool:
        is_held = self._holdings.get(storage) is not None
        return is_held or self._saved_for(storage._cdata) is not None

    def _kind(self, tensor: torch.Tensor) -> str:
        kind = f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
        if len(self._kinds) < _MOST_KINDS:
            self._kinds.add(kind)
        return kind if kind in self._kinds else ""


class _Tensors:
    """The plain tensors that Python refers to, from its creation to `close`."""

    def __init__(self) -> None:
        self._seen = [weakref.ref(one) for one in _plain(gc.get_objects())]
        self._clean_at = _FIRST_CLEANING + 2 * len(self._seen)
        self._has_missed = False
        gc.callbacks.append(self._collects)

    def close(self) -> None:
        """Stop observing."""
        gc.callbacks.remove(self._collects)

    def __iter__(self) -> Iterator[torch.Tensor]:
        if self._has_missed:
            self._has_missed = False
            self._see(_plain(gc.get_objects()))
        seen = {id(one): one for reference in self._seen if (one := reference()) is not None}
        return iter((seen | {id(one): one for one in _young()}).values())

    def _collects(self, phase: str, info: dict[str, Any]) -> None:
        """The collector is about to move young objects to the old generation."""
        if phase != "start" or not info["generation"]:
            return
        if is_computing():
            self._see(_young())
        else:  # a thread that must not touch the tensors
            self._has_missed = True

    def _see(self, tensors: Iterable[torch.Tensor]) -> None:
        self._seen += map(weakref.ref, tensors)
        if len(self._seen) >= self._clean_at:
            seen = {id(one): ref for ref in self._seen if (one := ref()) is not None}
            self._seen = list(seen.values())
            self._clean_at = _FIRST_CLEANING + 2 * len(self._seen)


def alive_storages() -> dict[int, StorageWeakRef]:
    """Every storage that Python objects refer to, by key."""
    return _storages(_plain(gc.get_objects()))


def _storages(tensors: Iterable[torch.Tensor]) -> dict[int, StorageWeakRef]:
    found: dict[int, StorageWeakRef] = {}
    for tensor in tensors:
        storage = storage_of(tensor)
        if storage is not None:
            reference = StorageWeakRef(storage)
            found[reference.cdata] = reference
    return found


def _young() -> list[torch.Tensor]:
    return _plain(chain.from_iterable(map(gc.get_objects, _YOUNG)))


def _plain(things: Iterable[Any]) -> list[torch.Tensor]:
    return [one for one in things if type(one) in PLAIN]
