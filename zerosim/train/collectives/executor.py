"""Execution of collectives and copies: at once, or in order of issue on a background thread.

One thread for all collectives of a process keeps their order, which is thus the same on all ranks.
Only one collective uses the sockets at a time, so that the kernel's counters can be separated.
On CUDA the thread launches on its own stream; streams wait for each other, the host does not.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch

from zerosim.base.errors import CollectiveError, ZerosimError, first_line
from zerosim.trace import dry, labels, threads
from zerosim.trace.sink import Labels
from zerosim.train.collectives.protocol import Handle

Work = Callable[[], None]


class Executor(Protocol):
    """Runs collectives, one at a time."""

    def submit(self, work: Work) -> Handle:
        """Run `work` under the labels of the caller."""
        ...

    def close(self) -> None:
        """Release the resources of the executor."""
        ...


class Done:
    """The handle of a completed collective."""

    def wait(self) -> None:
        """Nothing to wait for."""


class TensorHandle:
    """A handle with tensors: the caller frees them after its wait.

    PyTorch's record of allocations only sees frees of its own thread. Other threads may wait, too.
    """

    def __init__(self, handle: Handle, *tensors: torch.Tensor) -> None:
        self._handle = handle
        self._asked = threading.get_ident()
        self._tensors: tuple[torch.Tensor, ...] = tensors

    def wait(self) -> None:
        """Wait for the end; then the caller's thread releases the tensors."""
        self._handle.wait()
        if threading.get_ident() == self._asked:
            self._tensors = ()


class InlineExecutor:
    """Runs each collective at once, on the calling thread."""

    def submit(self, work: Work) -> Handle:
        """Run `work`, which has ended when this returns."""
        own = labels.Awaited()
        with labels.waiting(own), dry.aside():
            _perform(work, labels.snapshot(), own)
        return Done()

    def close(self) -> None:
        """Nothing to release."""


class DryExecutor:
    """Runs the work of a background thread at once on the calling thread: for a dry run.

    Fake tensors belong to the thread that created them. A waiter reports its wait once: whether it
    had to wait depends on the times, which are predicted later.
    """

    def submit(self, work: Work) -> Foreseen:
        """Run `work`, which counts as ended once it has been waited for."""
        foreseen = Foreseen()
        with threads.beside(), dry.aside():
            _perform(work, labels.snapshot(), foreseen.awaited)
        return foreseen

    def close(self) -> None:
        """Nothing to release."""


class Foreseen:
    """A collective or a copy that another thread would still be executing.

    Attributes:
        awaited: identifies it for a wait.
    """

    def __init__(self) -> None:
        self.awaited = labels.Awaited()
        self._is_over = False

    def wait(self) -> None:
        """Report once that this thread waits."""
        if not self._is_over:
            self._is_over = True
            with labels.waiting(self.awaited):
                pass


class _Pending:
    """A collective in progress on the background thread.

    The thread drops the work, hence its buffers, before it reports the end: the caller frees them
    when done.
    """

    def __init__(self, work: Work, snapshot: Labels, ready: torch.cuda.Event | None) -> None:
        self.work: Work | None = work
        self.labels = snapshot
        self.ready = ready
        self.awaited = labels.Awaited()
        self.over: torch.cuda.Event | None = None
        self.error: ZerosimError | None = None
        self.finished = threading.Event()

    def wait(self) -> None:
        """Block this thread until the collective is over (CUDA: this stream)."""
        if not self.finished.is_set():
            with labels.waiting(self.awaited):
                self.finished.wait()
        if self.error is not None:
            raise self.error
        if self.over is not None:
            torch.cuda.current_stream().wait_event(self.over)


class BackgroundExecutor:
    """Runs the collectives on one thread, in the order of the requests.

    After a failure, all later requests fail with the same error.
    """

    def __init__(
        self,
        device: torch.device,
        name: str = "zerosim-collectives",
        within: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Start the thread.

        Args:
            within: context managers that the thread enters at its start and exits at its end.
        """
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._queue: queue.SimpleQueue[_Pending | None] = queue.SimpleQueue()
        self._failed: ZerosimError | None = None
        self._within = within
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Work) -> Handle:
        """Queue `work`; return at once."""
        ready = None
        if self._stream is not None:
            ready = torch.cuda.Event()
            ready.record()
        pending = _Pending(work, labels.snapshot(), ready)
        self._queue.put(pending)
        return pending

    def close(self) -> None:
        """End the thread after all pending requests."""
        self._queue.put(None)
        self._thread.join()

    def _loop(self) -> None:
        with self._within():
            self._serve()

    def _serve(self) -> None:
        while (pending := self._queue.get()) is not None:
            try:
                if self._failed is not None:
                    raise self._failed
                self._run(pending)
            except ZerosimError as error:
                self._failed = pending.error = error
            finally:
                pending.finished.set()
                del pending

    def _run(self, pending: _Pending) -> None:
        work, pending.work = pending.work, None
        assert work is not None, "performed twice"
        if self._stream is None:
            _perform(work, pending.labels, pending.awaited)
            return
        assert pending.ready is not None
        with torch.cuda.stream(self._stream):
            self._stream.wait_event(pending.ready)
            _perform(work, pending.labels, pending.awaited)
            pending.over = torch.cuda.Event()
            pending.over.record()


def in_background(
    device: torch.device,
    name: str = "zerosim-collectives",
    within: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Executor:
    """An executor with or without a background thread; arguments as for `BackgroundExecutor`."""
    if dry.installed() is not None:
        return DryExecutor()
    return BackgroundExecutor(device, name, within)


def _perform(work: Work, snapshot: Labels, own: labels.Awaited) -> None:
    try:
        with labels.restored(snapshot), labels.awaited(own), torch.no_grad():
            work()
    except ZerosimError:
        raise
    except Exception as error:
        position = snapshot.position
        where = f"{position.phase} of iteration {position.iteration}" if position else ""
        what = f"{snapshot.purpose} of {snapshot.unit}" if snapshot.unit else str(snapshot.purpose)
        why = first_line(error)
        raise CollectiveError(f"{what} did not complete in {where}: {why}") from error
