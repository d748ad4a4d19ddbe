"""The collectives of an engine on a rank with an injected fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from zerosim.schema.events import Op
from zerosim.trace import labels
from zerosim.trace.faulty import Faults
from zerosim.train.collectives.executor import Done
from zerosim.train.collectives.group import RankGroup
from zerosim.train.collectives.protocol import Collectives, Handle
from zerosim.train.collectives.ring import Ring


class Faulty:
    """A `Collectives` wrapper that injects faults into some calls."""

    def __init__(self, sound: Collectives, faults: Faults) -> None:
        """Create the collectives of a group.

        Args:
            faults: the faults of this rank, with the calls that they affect.
        """
        self._sound, self._faults = sound, faults

    @property
    def group(self) -> RankGroup:
        """See `Collectives.group`."""
        return self._sound.group

    def all_reduce(self, buffer: torch.Tensor) -> Handle:
        """See `Collectives.all_reduce`."""
        return self._call(Op.ALL_REDUCE, buffer, self._sound.all_reduce)

    def reduce_scatter(self, buffer: torch.Tensor) -> Handle:
        """See `Collectives.reduce_scatter`."""
        return self._call(Op.REDUCE_SCATTER, buffer, self._sound.reduce_scatter)

    def all_gather(self, buffer: torch.Tensor) -> Handle:
        """See `Collectives.all_gather`."""
        return self._call(Op.ALL_GATHER, buffer, self._sound.all_gather)

    def broadcast(self, buffer: torch.Tensor, root: int) -> Handle:
        """See `Collectives.broadcast`."""
        return self._call(Op.BROADCAST, buffer, lambda given: self._sound.broadcast(given, root))

    def reduce(self, buffer: torch.Tensor, root: int) -> Handle:
        """See `Collectives.reduce`."""
        return self._call(Op.REDUCE, buffer, lambda given: self._sound.reduce(given, root))

    def send(self, buffer: torch.Tensor, to: int) -> Handle:
        """See `Collectives.send`."""
        return self._sound.send(buffer, to)

    def receive(self, buffer: torch.Tensor, source: int) -> Handle:
        """See `Collectives.receive`."""
        return self._sound.receive(buffer, source)

    def _call(self, op: Op, buffer: torch.Tensor, call: Callable[[Any], Handle]) -> Handle:
        faults, here = self._faults, labels.snapshot()

        def labelled(given: Any) -> Handle:
            with labels.restored(here):
                return call(given)

        follows = faults.holds_back()
        fault = None if follows else faults.meets(here, op, is_ring=isinstance(self._sound, Ring))
        if fault is None and not follows:
            return call(buffer)
        made: Handle = faults.perform(
            fault, labelled, buffer, payload=buffer, skipped=lambda _: Done()
        )
        return made
