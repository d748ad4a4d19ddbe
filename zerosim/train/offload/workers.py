"""The threads that read and write: each handles a whole file, which the kernel counts separately.

Files are started in order of issue; those of one name run one after another. The kernel counts a
thread's reads and writes in /proc/thread-self/io, so one file stays on one thread.
"""

from __future__ import annotations

import functools
import os
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch

from zerosim.base.errors import DiskError, ZerosimError, first_line
from zerosim.trace import labels
from zerosim.train.offload.pool import released_by


class Station:
    """The private state of a thread of the store.

    Attributes:
        staging: memory for the end of a file.
        counter: the kernel's counters of this thread.
    """

    def __init__(self, staging: torch.Tensor) -> None:
        self.staging = staging
        self.counter = Counter()


Work = Callable[[Station], None]


class FileJob:
    """A file in progress from or to the disk: the caller's handle.

    The thread releases the work, and thus its buffers, before it reports the end.

    Attributes:
        error: why it failed, once it has ended.
        over: set at its end, successful or not.
    """

    def __init__(
        self, work: Work, after: FileJob | None, on_done: Callable[[], None] | None
    ) -> None:
        self.error: ZerosimError | None = None
        self.over = threading.Event()
        self._work: Work | None = work
        self._after = after
        self._on_done = on_done
        self._labels = labels.snapshot()
        self._awaited = labels.Awaited()

    def wait(self) -> None:
        """Block this thread until the bytes are in place.

        Raises:
            DiskError: they are not.
        """
        if not self.over.is_set():
            with labels.waiting(self._awaited):
                self.over.wait()
        if self.error is not None:
            raise self.error

    def perform(self, station: Station, failed: ZerosimError | None) -> None:
        """Do the work on a thread of the store, unless something failed before."""
        after, self._after = self._after, None
        if after is not None:
            after.over.wait()
            failed = failed or after.error
        if failed is not None:
            self.error = failed
        else:
            self._explained(functools.partial(self._labelled, station))
        self._work = None
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            with released_by(self._awaited):
                self._explained(on_done)

    def _labelled(self, station: Station) -> None:
        work, self._work = self._work, None
        assert work is not None, "performed twice"
        with labels.restored(self._labels), labels.awaited(self._awaited), torch.no_grad():
            work(station)

    def _explained(self, work: Callable[[], None]) -> None:
        try:
            work()
        except ZerosimError as error:
            self.error = self.error or error
        except Exception as error:  # noqa: BLE001 - the waiter gets the error
            failed = DiskError(f"{self._labels.purpose} failed: {first_line(error)}")
            failed.__cause__ = error
            self.error = self.error or failed


class Workers:
    """Threads that run jobs in order of issue. After a failure, all later jobs fail as well."""

    def __init__(self, staging: Sequence[torch.Tensor]) -> None:
        """Start a thread for each of these pieces of memory."""
        self._queue: queue.SimpleQueue[FileJob | None] = queue.SimpleQueue()
        self._failed: ZerosimError | None = None
        self._threads = [
            threading.Thread(
                target=self._loop, args=(place,), name=f"zerosim-disk-{index}", daemon=True
            )
            for index, place in enumerate(staging)
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self,
        work: Work,
        *,
        after: FileJob | None = None,
        on_done: Callable[[], None] | None = None,
    ) -> FileJob:
        """Queue a job; return at once.

        Args:
            after: start only after the end of this earlier job.
            on_done: called on the thread at the end, successful or not.
        """
        job = FileJob(work, after, on_done)
        self._queue.put(job)
        return job

    def fail(self, error: ZerosimError) -> None:
        """Make all later requests fail with this error."""
        self._failed = self._failed or error

    def close(self) -> None:
        """End the threads after all pending jobs."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _loop(self, staging: torch.Tensor) -> None:
        station = Station(staging)
        while (job := self._queue.get()) is not None:
            job.perform(station, self._failed)
            if job.error is not None:
                self.fail(job.error)
            job.over.set()
            del job
        station.counter.close()


@dataclass(frozen=True, slots=True)
class CountedBytes:
    """Bytes that a thread read and wrote; None if the kernel does not count them."""

    read: int | None
    written: int | None


class Counter:
    """The kernel's counters of the calling thread: bytes of `read` and `write` calls."""

    def __init__(self) -> None:
        """Open the counters of this thread, which some kernels do not have."""
        self._file: int | None = None
        with suppress(OSError):
            self._file = os.open("/proc/thread-self/io", os.O_RDONLY | os.O_CLOEXEC)
        self._before: tuple[int, int] | None = None

    def begin(self) -> None:
        """Start to count."""
        self._before = self._read(own=True)

    def end(self) -> CountedBytes:
        """Bytes moved since `begin`."""
        after = self._read(own=False)
        if self._before is None or after is None:
            return CountedBytes(None, None)
        return CountedBytes(after[0] - self._before[0], after[1] - self._before[1])

    def _read(self, *, own: bool) -> tuple[int, int] | None:
        """The counters; with `own`, including the bytes of this reading itself."""
        if self._file is None:
            return None
        try:
            text = os.pread(self._file, 512, 0)
        except OSError:
            return None
        read, written = (int(line.split()[1]) for line in text.splitlines()[:2])
        return read + (len(text) if own else 0), written

    def close(self) -> None:
        """Release the counters."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
