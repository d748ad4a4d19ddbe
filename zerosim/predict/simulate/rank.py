"""One of N ranks, in a process that is alone: its groups, its environment, its clock."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.distributed import distributed_c10d
from torch.testing._internal.distributed.fake_pg import FakeStore

from zerosim.predict.simulate.backend import sending_nothing
from zerosim.predict.simulate.known import Known
from zerosim.predict.simulate.mode import without_memory
from zerosim.predict.simulate.post import Letters, Post
from zerosim.predict.simulate.work import WorkCounter
from zerosim.schema.events import OperatorWork, Phase
from zerosim.schema.manifest import Alike
from zerosim.systems.registry import systems
from zerosim.trace import dry, labels
from zerosim.trace.holdings import holdings
from zerosim.trace.sink import Description
from zerosim.train.launch import parallel

_init_process_group = dist.init_process_group
"""PyTorch's own store: a program gets another one."""


@dataclass(frozen=True, slots=True)
class SimulatedRank:
    """The simulated rank, and its place.

    Attributes:
        ranks_per_node: ranks per node; nodes are filled one after another.
        backend: the simulated backend: "gloo" or "nccl".
        machine: the name of the simulated machine.
        alike: the ranks that each rank's file represents.
    """

    rank: int
    num_ranks: int
    ranks_per_node: int
    backend: str
    machine: str
    alike: tuple[Alike, ...] = ()

    def environment(self) -> dict[str, str]:
        """The environment set by its launcher."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.num_ranks),
            "LOCAL_RANK": str(self.rank % self.ranks_per_node),
            "LOCAL_WORLD_SIZE": str(self.ranks_per_node),
            "GROUP_RANK": str(self.rank // self.ranks_per_node),
        }


class OrderClock:
    """A logical clock: it only gives the order; times are predicted at the end.

    Within a computation it advances with the work of operators, so that a request in the middle is
    placed after the preceding part.
    """

    def __init__(self) -> None:
        self._now = 0

    def now_ns(self) -> int:
        """The time: a nanosecond later at each call."""
        self._now += 1
        return self._now

    def passes(self, amount: int) -> None:
        """Advance the clock by an amount of work."""
        self._now += amount

    def wall_ns(self) -> int:
        """The same."""
        return self._now


@dataclass(slots=True)
class DryRank:
    """A simulated rank. Implements `trace.dry.DryRun`."""

    place: SimulatedRank
    known: Known | None = None
    clock: OrderClock = field(default_factory=OrderClock)
    work: WorkCounter = field(init=False)

    def __post_init__(self) -> None:
        self.work = WorkCounter(self.clock.passes)

    def without_memory(self) -> AbstractContextManager[None]:
        """Tensors that are made inside have shapes and storages, and no memory."""
        return without_memory(self.work, self.known)

    @property
    def backend(self) -> str:
        """That of its place."""
        return self.place.backend

    @property
    def machine(self) -> str:
        """That of its place."""
        return self.place.machine

    @property
    def alike(self) -> tuple[Alike, ...]:
        """That of its place."""
        return self.place.alike

    def begin_work(self) -> None:
        """A computation begins."""
        self.work.begin()

    def take_work(self) -> tuple[OperatorWork, ...]:
        """The computation has ended: its operators."""
        return self.work.take()

    def aside(self) -> AbstractContextManager[None]:
        """Work inside does not belong to the open computation."""
        return self.work.aside()


@contextmanager
def stand_in(place: SimulatedRank, letters: Letters | None = None) -> Iterator[DryRank]:
    """Act as one of several ranks, none of which exists: messages to them arrive at once.

    Args:
        letters: values sent by the others, for a user's program, which may know values.

    Yields:
        The rank, for `without_memory`.
    """
    with prepared(place, letters) as run:
        join(place)
        yield run


def join(place: SimulatedRank) -> None:
    """Act as a rank of a group that sends nothing."""
    _init_process_group(
        dry.FAKE_BACKEND, rank=place.rank, world_size=place.num_ranks, store=FakeStore()
    )


@contextmanager
def prepared(place: SimulatedRank, letters: Letters | None) -> Iterator[DryRank]:
    """The same, but the code of the rank itself joins its group (`join`)."""
    known = None if letters is None else Known()
    post = None
    if letters is not None and known is not None:
        post = Post(letters, known, place.rank, is_alone=bool(place.alike))
    run = DryRank(place, known)
    with _told(place.environment()), dry.installed_as(run), holdings.apart():
        gc.freeze()  # existing objects are not scanned
        if not dist.is_initialized():
            # PyTorch also counts groups that could not be created, and all ranks use the same names
            dist.distributed_c10d._world.group_count = 0
        labels.describe(Description())  # nor is an engine of this process
        try:
            with sending_nothing(post), nullcontext() if post is None else _as_with_memory():
                yield run
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()
            labels.describe(Description())
            labels.enter(-1, Phase.OUTSIDE)
            parallel.forget()
            _forget_meshes()
            # a model and its hooks refer to each other; the next rank has neither
            gc.collect()
            gc.unfreeze()


def _forget_meshes() -> None:
    """DTensor caches results per mesh, whose groups belong to the simulated rank.

    It treats two meshes with the same ranks in the same order as one.
    """
    tensors: Any = sys.modules.get("torch.distributed.tensor")
    if tensors is None:
        return
    vars(torch._C)["_clear_DTensor_sharding_propagator_cache"]()
    tensors.DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding.cache_clear()
    redistribute: Any = sys.modules["torch.distributed.tensor._redistribute"]
    redistribute._gen_transform_infos.cache_clear()
    redistribute.clear_redistribute_planner_cache()


@contextmanager
def _as_with_memory() -> Iterator[None]:
    """Queries of missing memory are answered as if it existed.

    Objects that PyTorch sends have values: their bytes come from no tensor. The system knows the
    queries of its own code (its part `dry`).
    """
    to_tensor: Any = distributed_c10d._object_to_tensor

    def object_to_tensor(*args: Any) -> Any:
        with unset_fake_temporarily():
            return to_tensor(*args)

    with ExitStack() as held:
        held.enter_context(
            mock.patch.object(distributed_c10d, "_object_to_tensor", object_to_tensor)
        )
        for system in systems().values():
            if (part := system.part("dry")) is not None:
                held.enter_context(part.as_with_memory())
        yield


@contextmanager
def _told(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
