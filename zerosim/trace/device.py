"""Times of execution on a device, on the rank's clock, without waiting for the device.

A mark is recorded in a stream at the start and end of an event; it has a time once the device
reaches it. The computing thread queries marks at phase borders: nothing waits for the device unless
the program does. NCCL executes the collectives of a group one after another, on its own stream: one
that was issued before the previous one ended began at that end.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import torch
import torch.distributed as dist

from zerosim.schema.events import DeviceClock
from zerosim.schema.rows import row_writer
from zerosim.trace.rowfile import Rows

_MOST = 8192
"""Number of events with pending device times."""
_LONGEST_S = 1.0
"""Timeout for the device at the end of a trace; a hanging device is abandoned."""
_POLL_S = 0.001
_REBASE_MS = 8000.0
"""CUDA's times have single precision: after this long, they no longer resolve microseconds."""
_row = row_writer("device", "event", "begin_ns", "end_ns")


class Mark(Protocol):
    """A position in a stream of a device."""

    def is_over(self) -> bool:
        """Whether the device has reached it."""
        ...

    def time_ns(self) -> int:
        """The time at which it was reached, on the rank's clock; undefined before."""
        ...


class Marks(Protocol):
    """A source of marks."""

    def here(self) -> Mark | None:
        """A mark in the current stream of this thread; None if none can be recorded."""
        ...

    def after(self, work: Any) -> Mark | None:
        """A mark that the device reaches when a work of the backend ends; None if none can be
        recorded.
        """
        ...

    def uncertainty_ns(self) -> int:
        """The current uncertainty between the two clocks; the device must be idle."""
        ...


class _CudaMark:
    def __init__(self, clock: CudaMarks, event: torch.cuda.Event) -> None:
        self._clock, self._event = clock, event

    def is_over(self) -> bool:
        return bool(self._event.query())

    def time_ns(self) -> int:
        return self._clock.time_of(self._event)


class CudaMarks:
    """CUDA events, timed relative to the first one."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._base: tuple[torch.cuda.Event, int] | None = None
        self._apart_ns = 0
        self._ours: torch.cuda.Stream | None = None

    def here(self) -> Mark | None:
        """See `Marks.here`."""
        if torch.cuda.is_current_stream_capturing():
            return None
        if self._base is None:
            self._base, self._apart_ns = self._met()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return _CudaMark(self, event)

    def after(self, work: Any) -> Mark | None:
        """See `Marks.after`."""
        is_batch = bool(dist.distributed_c10d._world.pg_coalesce_state)
        if is_batch or torch.cuda.is_current_stream_capturing():
            return None
        # waiting for the work itself would return its tensors to the allocator, and streams that
        # have not waited could overwrite them; waiting for its future only makes a stream wait
        with suppress(RuntimeError):
            future = work.get_future()
            if not future.done():  # the host would wait: it is not NCCL's
                return None
            if self._ours is None:
                self._ours = torch.cuda.Stream()
            with torch.cuda.stream(self._ours):
                future.wait()
                return self.here()
        return None

    def uncertainty_ns(self) -> int:
        """See `Marks.uncertainty_ns`."""
        if self._base is None:
            return 0
        (event, now_ns), apart_ns = self._met()
        return max(self._apart_ns, abs(self.time_of(event) - now_ns) + apart_ns)

    def time_of(self, event: torch.cuda.Event) -> int:
        """The time at which the device reached an event that it has passed."""
        assert self._base is not None, "it was recorded after the base"
        base, base_ns = self._base
        passed_ms = float(base.elapsed_time(event))
        time_ns: int = base_ns + round(passed_ms * 1e6)
        if passed_ms > _REBASE_MS:
            self._base = event, time_ns
        return time_ns

    def _met(self) -> tuple[tuple[torch.cuda.Event, int], int]:
        """An event with known times on both clocks, and the uncertainty."""
        torch.cuda.current_stream().synchronize()
        event = torch.cuda.Event(enable_timing=True)
        before_ns = self._now_ns()
        event.record()
        event.synchronize()
        after_ns = self._now_ns()
        return (event, (before_ns + after_ns) // 2), (after_ns - before_ns) // 2


class _Waiting(threading.local):
    mark: Mark | None = None


class DeviceTimes:
    """Start and end of events on a device; they become rows once the device has reached them."""

    def __init__(self, rows: Rows, marks: Marks) -> None:
        self._rows, self._marks = rows, marks
        self._begun: dict[int, tuple[Mark, str]] = {}
        self._ended: deque[tuple[int, Mark, Mark, str]] = deque()
        self._over_ns: dict[str, int] = {}
        self._thread = _Waiting()
        self._num_lost = 0

    def begins(self, event: int, group: str = "") -> None:
        """An event begins, on this thread's stream.

        Args:
            group: the group of a collective.
        """
        if len(self._begun) + len(self._ended) >= _MOST:
            self._num_lost += 1
        elif (mark := self._marks.here()) is not None:
            self._begun[event] = mark, group

    def ends(self, event: int, work: Any = None) -> None:
        """End it at the current point of this thread's stream, or with the work, unless it has
        ended.
        """
        begin, group = self._begun.pop(event, (None, ""))
        if begin is None:
            return
        end = self._marks.here() if work is None else self._marks.after(work)
        if end is not None:
            self._ended.append((event, begin, end, group))

    def forget(self, event: int) -> None:
        """Forget an event that involved no work on the device."""
        self._begun.pop(event, None)

    def comes_to_wait(self) -> None:
        """Record that this thread's stream is about to wait."""
        self._thread.mark = self._marks.here()

    def goes_on(self, wait: int) -> None:
        """It has waited; `wait` is the wait's event."""
        begin, self._thread.mark = self._thread.mark, None
        end = None if begin is None else self._marks.here()
        if begin is not None and end is not None and len(self._ended) < _MOST:
            self._ended.append((wait, begin, end, ""))

    def wait(self) -> None:
        """Wait until the device has completed all known events, unless it hangs."""
        until = time.monotonic() + _LONGEST_S
        while not self.write() and time.monotonic() < until:
            time.sleep(_POLL_S)

    def write(self) -> bool:
        """Write rows of completed events; returns whether none is pending."""
        for _ in range(len(self._ended)):
            event, begin, end, group = one = self._ended.popleft()
            if not end.is_over():
                self._ended.append(one)
                continue
            begin_ns, end_ns = begin.time_ns(), end.time_ns()
            if group:
                begin_ns = min(max(begin_ns, self._over_ns.get(group, 0)), end_ns)
                self._over_ns[group] = end_ns
            self._rows.append(_row(event, begin_ns, max(begin_ns, end_ns)))
        return not self._ended

    def first_call(self) -> int | None:
        """The first collective that the device has not completed; None if there is none."""
        under_way = [
            event for event, _, end, group in [*self._ended] if group and not end.is_over()
        ]
        return min(
            [*under_way, *(one for one, (_, group) in [*self._begun.items()] if group)],
            default=None,
        )

    def close(self) -> None:
        """Write what the device completes shortly, and the alignment of its clock."""
        self.wait()
        if not self._ended:
            with suppress(RuntimeError):  # a failed device has no times
                uncertainty_ns = self._marks.uncertainty_ns()
                self._rows.write(
                    "device_clock",
                    DeviceClock(uncertainty_ns=uncertainty_ns, num_lost=self._num_lost),
                )


def marks_of(device: str, now_ns: Callable[[], int]) -> Marks | None:
    """The source of a rank's marks; None on a CPU."""
    return CudaMarks(now_ns) if device == "cuda" else None
