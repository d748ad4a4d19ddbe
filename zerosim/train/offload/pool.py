"""A bounded pool of host memory that waits for the disk.

All of it is allocated once. A buffer is acquired, filled by a read or by the caller, and released
by its last user; a request without a free buffer waits, and the wait is recorded as one for the
copy whose end released the buffer. Source: ZeRO-Infinity (arXiv 2104.07857), section 6.3.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._subclasses.fake_tensor import FakeTensor

from zerosim.base.tiers import Tier
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import hold, release
from zerosim.train.device import on_host
from zerosim.train.offload.blocks import PAGE_BYTES
from zerosim.train.offload.layout import in_pages, staging_bytes

_HUGE_PAGE_BYTES = 2 << 20
_libc = ctypes.CDLL(None)


class _Releasing(threading.local):
    by: labels.Awaited | None = None


_thread = _Releasing()


@contextmanager
def released_by(awaited: labels.Awaited) -> Iterator[None]:
    """A context in which buffers that this thread releases are attributed to the end of a copy."""
    _thread.by = awaited
    try:
        yield
    finally:
        _thread.by = None


def pool_bytes(buffers: int, buffer_bytes: int, threads: int) -> int:
    """Size of a pool: each buffer in whole pages, a staging area for each thread, a page."""
    return buffers * in_pages(buffer_bytes) + threads * staging_bytes(buffer_bytes) + PAGE_BYTES


class Buffer:
    """Host memory for one file.

    Attributes:
        tensor: uint8, 1-D, at an address that is a multiple of 4096.
    """

    def __init__(self, pool: Pool, place: torch.Tensor, num_bytes: int) -> None:
        self.tensor = place[:num_bytes]
        self._pool = pool
        self._place: torch.Tensor | None = place

    def release(self) -> None:
        """Release the buffer; `tensor` must no longer be used. A second call has no effect."""
        place, self._place = self._place, None
        if place is not None:
            self._pool.take_back(place)


class Pool:
    """Buffers of one size, shared by several threads.

    Attributes:
        staging: memory for each thread of the store.
    """

    def __init__(self, buffers: int, buffer_bytes: int, threads: int) -> None:
        """Allocate the whole pool.

        Args:
            buffers: at least 1.
            buffer_bytes: size of the largest request.
        """
        assert buffers >= 1, f"{buffers} buffers"
        self._buffer_bytes = buffer_bytes
        size, extra = in_pages(buffer_bytes), staging_bytes(buffer_bytes)
        needed = pool_bytes(buffers, buffer_bytes, threads)
        with on_host():
            self._memory = torch.empty(
                needed, dtype=torch.uint8, device="cpu", pin_memory=torch.cuda.is_initialized()
            )
        _ask_for_huge_pages(self._memory)
        hold(self._memory, Role.BUFFERS, "", Tier.HOST)
        start = -_address(self._memory) % PAGE_BYTES
        places = self._memory[start : start + needed - PAGE_BYTES].split(
            [size] * buffers + [extra] * threads
        )
        self._free: deque[tuple[torch.Tensor, labels.Awaited]] = deque(
            (place, labels.Awaited()) for place in places[:buffers]
        )
        self.staging = places[buffers:]
        self._changed = threading.Condition()

    def take(self, num_bytes: int, *, blocks: bool) -> Buffer | None:
        """A free buffer; if there is none, wait for one, or return None."""
        assert num_bytes <= self._buffer_bytes, f"{num_bytes} bytes of {self._buffer_bytes}"
        with self._changed:
            if not self._free:
                if not blocks:
                    return None
                self._wait()
            place, _ = self._free.popleft()
        return Buffer(self, place, num_bytes)

    def take_back(self, place: torch.Tensor) -> None:
        """Return a buffer to the pool."""
        with self._changed:
            self._free.append((place, _thread.by or labels.Awaited()))
            self._changed.notify()

    def close(self) -> None:
        """Remove the labels of live memory, for the next trace."""
        release(self._memory)

    def _wait(self) -> None:
        awaited = labels.Awaited()
        with labels.waiting(awaited):
            self._changed.wait_for(lambda: self._free)
            awaited.begun = self._free[0][1].begun


def _ask_for_huge_pages(memory: torch.Tensor) -> None:
    """Let the kernel use pages of 2 MiB: it pins each page that a disk reads or writes.

    With pages of 4 KiB that took most of the processor's time, and two thirds of the bandwidth.
    """
    address = _address(memory)
    begin = address + -address % PAGE_BYTES
    num_bytes = (address + memory.numel() - begin) // PAGE_BYTES * PAGE_BYTES
    if address and num_bytes >= _HUGE_PAGE_BYTES and not torch.cuda.is_initialized():
        _libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(num_bytes), mmap.MADV_HUGEPAGE)


def _address(memory: torch.Tensor) -> int:
    """The address of memory; 0 for a dry run's, which has none."""
    return 0 if isinstance(memory, FakeTensor) else memory.data_ptr()
