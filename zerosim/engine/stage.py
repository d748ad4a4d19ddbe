"""The moments of an iteration at which the stages differ.

`Stage` is what all have in common: every rank holds everything, and nothing is communicated. Each
stage overrides the moments at which it does something else; `stage0` to `stage3` read top to
bottom in the order of an iteration.
Imports torch, zerosim's L0, collectives and trace.labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from zerosim.collectives import Collectives, Executor, Handle
from zerosim.collectives.executor import Done
from zerosim.config import EngineConfig
from zerosim.engine.buckets import ConstantBuffers
from zerosim.engine.flat import FlatUnit
from zerosim.engine.homes import Home
from zerosim.manifest import BucketLayout
from zerosim.offload.copies import Copies

if TYPE_CHECKING:
    from zerosim.offload.disk import DiskStore


@dataclass(frozen=True, slots=True)
class Context:
    """What every stage works with.

    Attributes:
        units: in the order in which their modules were registered.
        buckets: in the order in which backward completes them.
        executor: runs the collectives, one after another.
        copies: between the device and the host.
        disk: what this rank keeps on a disk; None if nothing is.
        buffers: what buckets of several pieces go through; None for fresh memory each time.
    """

    config: EngineConfig
    collectives: Collectives
    units: Sequence[FlatUnit]
    buckets: Sequence[BucketLayout]
    executor: Executor
    copies: Copies
    disk: DiskStore | None = None
    buffers: ConstantBuffers | None = None

    @property
    def num_ranks(self) -> int:
        """Size of the group that the states are divided among."""
        return self.collectives.group.size

    @property
    def rank(self) -> int:
        """This rank's position in the group."""
        return self.collectives.group.rank

    @property
    def communicates(self) -> bool:
        """False for a group of one."""
        return self.num_ranks > 1

    def first(self, handle: Handle) -> None:
        """Have the collectives that are asked for from now on wait for something else."""
        if not isinstance(handle, Done):
            self.executor.submit(handle.wait)


class Stage:
    """What happens to a unit at each moment of an iteration.

    Attributes:
        frees_parameters: a unit's parameters are there only while its module computes.
    """

    frees_parameters = False

    def __init__(self, context: Context) -> None:
        """Take over units that have no memory yet."""
        self.context = context
        self.home = self.make_home()
        self._deliveries: list[Handle] = []

    def make_home(self) -> Home:
        """Where this rank keeps its own rows: where their units are."""
        return Home(self.context)

    def release(self, flat: FlatUnit) -> None:
        """All that this rank keeps has been taken of a unit that was complete on every rank."""

    @contextmanager
    def whole(self, flat: FlatUnit) -> Iterator[None]:
        """All parameters of a unit are there inside, on every rank."""
        yield

    def updated_rows(self) -> tuple[int, ...]:
        """The rows whose optimizer states this rank holds: its own."""
        return (self.context.rank,)

    def gradient_rows(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The updated rows of a unit's gradient, reduced over all ranks."""
        assert flat.gradient is not None, f"{flat.name} has no gradient"
        return [flat.gradient[row] for row in self.updated_rows()]

    def before_forward(self, flat: FlatUnit) -> None:
        """The unit's module is about to compute."""

    def after_forward(self, flat: FlatUnit) -> None:
        """The unit's module has computed."""

    def finish_forward(self) -> None:
        """The whole model has computed."""

    def before_backward(self, flat: FlatUnit) -> None:
        """The gradient of the unit's output is there."""

    def after_backward(self, flat: FlatUnit, *, last_micro_step: bool) -> None:
        """All gradients of the unit are there."""

    def finish_backward(self, *, last_micro_step: bool) -> None:
        """The backward pass is over, and after_backward was called for every unit."""

    def after_update(self, flat: FlatUnit) -> None:
        """This rank's rows of the unit's parameters are written: bring them home."""
        delivery = self.home.deliver(flat)
        self.context.first(delivery)
        self._deliveries.append(delivery)

    def settle(self) -> None:
        """Wait until what was written is home: its place may be written again."""
        for delivery in self._deliveries:
            delivery.wait()
        self._deliveries.clear()

    def gathered(self) -> None:
        """Wait until what other ranks have updated is here."""

    def finish_update(self) -> None:
        """The optimizer step is over, or was skipped."""
        self.settle()
        for flat in self.context.units:
            flat.start_over()

    def let_go(self) -> None:
        """The engine is closed."""
        self.home.let_go()
