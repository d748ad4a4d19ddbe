"""The disk of a dry run: nothing is written, but every copy is recorded.

A copy is made on issue, on the calling thread, like collectives with `DryExecutor`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from zerosim.base.tiers import Tier
from zerosim.trace import labels
from zerosim.train.collectives import Handle
from zerosim.train.collectives.executor import DryExecutor
from zerosim.train.offload.disk import THREADS, request_of
from zerosim.train.offload.pool import Buffer, Pool, released_by


class DryDisk:
    """The state that one rank would have on a disk. Implements `Disk`."""

    def __init__(self, *, buffers: int, buffer_bytes: int) -> None:
        """Create an empty disk; arguments as for `DiskFiles`."""
        self._pool = Pool(buffers, buffer_bytes, THREADS)
        self._executor = DryExecutor()

    def buffer(self, num_bytes: int) -> Buffer:
        """A buffer of the pool.

        Raises:
            RuntimeError: no buffer is free, and no request in progress would release one.
        """
        buffer = self.try_buffer(num_bytes)
        if buffer is None:
            raise RuntimeError("every buffer is taken, and no rank is left to return one")
        return buffer

    def try_buffer(self, num_bytes: int) -> Buffer | None:
        """A buffer of the pool; None if none is free."""
        return self._pool.take(num_bytes, blocks=False)

    def write(
        self, name: str, source: torch.Tensor, *, on_done: Callable[[], None] | None = None
    ) -> Handle:
        """See `Disk.write`."""
        del name  # any buffer would do
        return self._copy(source, Tier.HOST, Tier.DISK, on_done)

    def read(self, name: str, into: torch.Tensor) -> Handle:
        """See `Disk.read`."""
        del name
        return self._copy(into, Tier.DISK, Tier.HOST, None)

    def commit(self, state: Mapping[str, object]) -> None:
        """Do nothing, because nothing is stored."""

    def check(self) -> None:
        """There is no state to resume."""

    def close(self) -> None:
        """Release the memory."""
        self._pool.close()

    def _copy(
        self, tensor: torch.Tensor, origin: Tier, target: Tier, on_done: Callable[[], None] | None
    ) -> Handle:
        request = request_of(tensor, origin, target)

        def work() -> None:
            with labels.copying(request):
                pass

        foreseen = self._executor.submit(work)
        if on_done is not None:
            with released_by(foreseen.awaited):
                on_done()
        return foreseen
