"""A simulated device's memory on a host without a device: separate accounting, with a limit.

A dispatch mode intercepts the operators of each thread that entered it, in forward, in backward and
in the optimizer. A new storage that an operator returns gets an address in a limited address space,
until it is freed. Temporary allocations inside operators are not intercepted. A caching allocator
on a GPU rounds and splits blocks; this one does not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any, Self

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from zerosim.schema.memory import Role
from zerosim.trace import address_maps as trace_places
from zerosim.trace.holdings import PLAIN, key_of, storage_of
from zerosim.train.device.full import out_of_memory
from zerosim.train.device.storage_places import StoragePlaces


class _Returns(Enum):
    """The outputs of an operator."""

    NEW = auto()
    """Possibly storages that none of its inputs has."""
    FRESH = auto()
    """An operator input that no operator created: a constant of the program."""
    RESIZED = auto()
    """An input that may have grown or shrunk."""
    OLD = auto()
    """Nothing, or views of its inputs."""


_FAKE = torch._C._TorchDispatchModeKey.FAKE  # noqa: SLF001 - it has no public name
_kinds: dict[Any, _Returns] = {}


class _ThreadLocal(threading.local):
    on_host = False


class _Current:
    memory: DeviceMemory | None = None


_thread = _ThreadLocal()


class DeviceMemory:
    """A memory of `limit_bytes` for all allocations of this thread within the context.

    Earlier allocations, and those under `on_host`, belong to the host. Backward of a graph on the
    CPU runs on the calling thread.
    """

    def __init__(self, limit_bytes: int) -> None:
        """Create an empty memory; `with` enters it."""
        self.places = StoragePlaces(limit_bytes)
        self._mode = _Mode(self)

    def __enter__(self) -> Self:
        """All later allocations are in this memory."""
        assert _Current.memory is None, "one device memory at a time"
        _Current.memory = self
        trace_places.install(self.places)
        self._mode.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop counting."""
        self._mode.__exit__(*raised)  # type: ignore[no-untyped-call]
        trace_places.install(None)
        _Current.memory = None

    @property
    def used_bytes(self) -> int:
        """Bytes in use."""
        return sum(self.places.used_bytes_by_role().values())

    @property
    def allocated_bytes(self) -> int:
        """Bytes in use without rounding: as PyTorch would count."""
        return self.places.allocated_bytes()

    @property
    def peak_bytes(self) -> int:
        """The peak of the bytes in use."""
        return self.places.peak_bytes

    def take(self, storage: torch.UntypedStorage, operator: Any) -> None:
        """Give a storage an address, or another one if its size has changed.

        Args:
            operator: the operator that created or resized it.

        Raises:
            OutOfMemory: there is no room.
        """
        if not self.places.take(storage):
            space = self.places.space
            raise out_of_memory(
                str(operator).removeprefix("aten.").partition(".")[0],
                storage.nbytes(),
                limit_bytes=space.limit_bytes,
                used_bytes=space.used_bytes,
                largest_free_bytes=space.largest_free_bytes,
                by_role=self.places.used_bytes_by_role(),
            )

    def returned(self, operator: Any, output: Any, inputs: Iterable[Any]) -> None:
        """Handle an operator that was called in this thread."""
        kind = _kind_of(operator)
        if kind is _Returns.OLD or _thread.on_host:
            return
        given: set[int] | None = None
        for tensor in _tensors(output):
            storage = storage_of(tensor)
            if storage is None:
                continue
            if not self.places.has(storage):
                if kind is _Returns.RESIZED:
                    continue
                if given is None and kind is _Returns.NEW:
                    given = set(_keys(inputs))
                if given and key_of(storage) in given:
                    continue
            self.take(storage, operator)


class _Mode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # nothing is compiled on such a device; to keep the compiler out, PyTorch would import it
        return False

    def __init__(self, memory: DeviceMemory) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._memory = memory

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if type(torch._C._get_dispatch_mode(_FAKE)) is FakeTensorMode:  # noqa: SLF001
            # a DTensor queries shapes with tensors without memory; a dry run has its own mode
            return func(*args, **(kwargs or {}))
        if types and any(kind not in PLAIN for kind in types):
            return NotImplemented  # a DTensor or similar: its operators are intercepted
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        self._memory.returned(func, output, (*args, *kwargs.values()))
        return output


@contextmanager
def on_device() -> Iterator[None]:
    """Allocations of another thread within the context count as those of the device."""
    if _Current.memory is None:
        yield
        return
    with _Mode(_Current.memory):
        yield


@contextmanager
def on_host() -> Iterator[None]:
    """Allocations of this thread within the context belong to the host and not to the device."""
    before = _thread.on_host
    _thread.on_host = True
    try:
        yield
    finally:
        _thread.on_host = before


def resized(tensor: torch.Tensor) -> None:
    """Report that the tensor's storage was just resized: its address range is freed or renewed.

    Raises:
        OutOfMemory: there is no room for its new size.
    """
    storage = storage_of(tensor)
    memory = _Current.memory
    if memory is not None and storage is not None and memory.places.has(storage):
        memory.take(storage, "resize_")


def reserved(tensor: torch.Tensor, role: Role) -> None:
    """Label memory that is allocated once and divided later, for maps only."""
    storage = storage_of(tensor)
    if _Current.memory is not None and storage is not None:
        _Current.memory.places.reserve(storage, role, "")


def _kind_of(operator: Any) -> _Returns:
    kind = _kinds.get(operator)
    if kind is None:
        kind = _kinds[operator] = _classify(operator)
    return kind


def _classify(operator: Any) -> _Returns:
    schema = getattr(operator, "_schema", None)
    if schema is None:
        return _Returns.NEW
    name = schema.name.rpartition("::")[2]
    if name == "lift_fresh":
        return _Returns.FRESH
    if name.startswith("resize_") or any(one.is_out for one in schema.arguments):
        return _Returns.RESIZED
    if all(one.alias_info is not None for one in schema.returns):
        return _Returns.OLD
    return _Returns.NEW


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    """The tensors among values and in their lists."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _tensors(value)


def _keys(values: Iterable[Any]) -> Iterator[int]:
    for tensor in _tensors(tuple(values)):
        storage = storage_of(tensor)
        if storage is not None:
            yield key_of(storage)
