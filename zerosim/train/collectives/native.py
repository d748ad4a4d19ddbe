"""The backend's own collectives behind the same protocol.

Their traffic depends on the backend: Gloo implements a reduce-scatter as an all-reduce.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from zerosim.schema.events import Op
from zerosim.trace import labels
from zerosim.trace.holdings import references_to
from zerosim.train.collectives.executor import Done, Executor
from zerosim.train.collectives.group import RankGroup
from zerosim.train.collectives.protocol import Handle, require_matrix

# torch 2.13 renamed them and warns of the old names; torch 2.11 knows only the old ones
_all_gather: Callable[..., Any] = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
_reduce_scatter: Callable[..., Any] = getattr(
    dist, "reduce_scatter_single", dist.reduce_scatter_tensor
)
_LONGEST_S = 1.0
"""Time after a call's end for which a backend may keep references to its tensors."""


class Native:
    """The `Collectives` protocol over the backend's calls."""

    def __init__(self, group: RankGroup, executor: Executor) -> None:
        """Create the collectives of a group."""
        self.group = group
        self._executor = executor

    def all_reduce(self, buffer: torch.Tensor) -> Handle:
        """See `Collectives.all_reduce`."""

        def work() -> None:
            whole = buffer.contiguous()
            _lend(dist.all_reduce, whole, group=self.group.process_group)
            _copy_back(buffer, whole)

        return self._submit(work)

    def reduce_scatter(self, buffer: torch.Tensor) -> Handle:
        """See `Collectives.reduce_scatter`."""
        require_matrix(Op.REDUCE_SCATTER, buffer, self.group)

        def work() -> None:
            own, whole = torch.empty_like(buffer[self.group.rank]), buffer.contiguous()
            _lend(_reduce_scatter, own, whole.view(-1), group=self.group.process_group)
            buffer[self.group.rank].copy_(own)

        return self._submit(work)

    def all_gather(self, buffer: torch.Tensor) -> Handle:
        """See `Collectives.all_gather`."""
        require_matrix(Op.ALL_GATHER, buffer, self.group)

        def work() -> None:
            whole = buffer if buffer.is_contiguous() else buffer.new_empty(buffer.shape)
            own = buffer[self.group.rank].clone()
            _lend(_all_gather, whole.view(-1), own, group=self.group.process_group)
            _copy_back(buffer, whole)

        return self._submit(work)

    def broadcast(self, buffer: torch.Tensor, root: int) -> Handle:
        """See `Collectives.broadcast`."""
        source = self.group.ranks[root]
        group = self.group.process_group
        return self._submit(lambda: _lend(dist.broadcast, buffer, src=source, group=group))

    def reduce(self, buffer: torch.Tensor, root: int) -> Handle:
        """See `Collectives.reduce`."""
        target = self.group.ranks[root]
        group = self.group.process_group
        return self._submit(lambda: _lend(dist.reduce, buffer, dst=target, group=group))

    def send(self, buffer: torch.Tensor, to: int) -> Handle:
        """See `Collectives.send`."""
        peer = self.group.ranks[to]
        return self._submit(lambda: dist.send(buffer, peer, group=self.group.process_group))

    def receive(self, buffer: torch.Tensor, source: int) -> Handle:
        """See `Collectives.receive`."""
        peer = self.group.ranks[source]
        return self._submit(
            lambda: _discard(dist.recv(buffer, peer, group=self.group.process_group))
        )

    def _submit(self, work: Callable[[], None]) -> Handle:
        if self.group.size == 1:
            return Done()

        def alone() -> None:
            with labels.exclusive():
                work()

        return self._executor.submit(alone)


def _copy_back(buffer: torch.Tensor, whole: torch.Tensor) -> None:
    if whole is not buffer:
        buffer.copy_(whole)


def _lend(call: Callable[..., Any], *tensors: torch.Tensor, **given: Any) -> None:
    """Call an operation; when this returns, only the caller references the tensors.

    Gloo's thread reports the end of a call and releases its tensors a moment later. Memory that the
    engine frees in between would stay live for a time that varies.
    """
    aliases = [tensor.detach() for tensor in tensors]
    before = [references_to(alias) for alias in aliases]
    call(*aliases, **given)
    until = time.monotonic() + _LONGEST_S
    while [references_to(alias) for alias in aliases] != before and time.monotonic() < until:
        time.sleep(0)


def _discard(_: object) -> None:
    """The operation ended; its result is not needed."""
