"""Copies between the tiers of this rank, overlapped with computation.

One thread makes them in order of issue, so that a copy may depend on earlier ones. On CUDA the
thread
has a stream of its own, and host memory is pinned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from zerosim.base.tiers import Tier
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import hold
from zerosim.trace.sink import CopyRequest
from zerosim.train.collectives import Executor, Handle
from zerosim.train.collectives.executor import TensorHandle
from zerosim.train.device import on_host


def _nothing() -> None:
    """Default of `then`: do nothing."""


class Copies:
    """Copies of one rank between its device and its host."""

    def __init__(self, executor: Executor) -> None:
        """Create copies on this executor's thread, or at once if it has none."""
        self._executor = executor

    def copy(
        self,
        target: torch.Tensor,
        source: torch.Tensor,
        way: tuple[Tier, Tier],
        after: Sequence[Handle] = (),
        then: Callable[[], None] = _nothing,
    ) -> Handle:
        """Copy `source` over `target`, under the labels of the caller.

        Args:
            target, source: tensors of one shape and dtype, which must stay untouched until a
                wait for the handle.
            way: the tiers of `source` and of `target`.
            after: the work that must end first.
            then: called on the copying thread at the end.
        """

        def work() -> None:
            for handle in after:
                handle.wait()
            with labels.copying(request_of(source, way)):
                target.copy_(source, non_blocking=target.is_cuda or source.is_cuda)
            if then is not _nothing:
                _synchronize(target, source)
                then()

        return TensorHandle(self._executor.submit(work), target, source)

    def add(
        self,
        total: torch.Tensor,
        source: torch.Tensor,
        staging: torch.Tensor,
    ) -> Handle:
        """Copy `source` from the device to `staging` on the host, and add it to `total` there."""

        def work() -> None:
            with labels.copying(request_of(source, (Tier.DEVICE, Tier.HOST))):
                staging.copy_(source, non_blocking=source.is_cuda)
            _synchronize(source)
            total.add_(staging)

        return TensorHandle(self._executor.submit(work), source)

    def close(self) -> None:
        """End the thread after all pending copies."""
        self._executor.close()


def _synchronize(*tensors: torch.Tensor) -> None:
    """Synchronize the copies of this thread, if a tensor is on a GPU."""
    if any(tensor.is_cuda for tensor in tensors):
        torch.cuda.current_stream().synchronize()


def request_of(source: torch.Tensor, way: tuple[Tier, Tier]) -> CopyRequest:
    """How a copy of this tensor is recorded."""
    return CopyRequest(
        origin=way[0],
        target=way[1],
        dtype=str(source.dtype).removeprefix("torch."),
        elements=source.numel(),
        payload_bytes=source.numel() * source.element_size(),
    )


def host_tensor(like: torch.Tensor, elements: int, role: Role, unit: str) -> torch.Tensor:
    """A vector in the host's memory, of the dtype of `like`; pinned if that one is on a GPU."""
    with on_host():
        tensor = torch.empty(elements, dtype=like.dtype, device="cpu", pin_memory=like.is_cuda)
    hold(tensor, role, unit, Tier.HOST)
    return tensor
