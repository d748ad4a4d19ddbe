"""A rank's state on a disk: ZeRO-Infinity's third tier.

    folder/rank-N/NAME.slot-0, NAME.slot-1      a name's bytes, in two versions
    folder/rank-N/commit-0.json, commit-1.json  the rank's last two commits
    folder/rank-N/lock                          taken while a process uses it

A name has two files. The file of the last commit is never overwritten: a write goes to the other
file, so the last good state survives any failed write. After `commit` on all ranks the files swap.
A rank may therefore write again only after all ranks have committed; in training, any collective
between two updates ensures that.

Source: ZeRO-Infinity (arXiv 2104.07857), sections 5.1.2 and 6.3 (DeepNVMe): asynchronous bulk reads
and writes, a small pool of pinned buffers. Commits and checksums are zerosim's own.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import torch

from zerosim.base.errors import DiskError
from zerosim.base.tiers import Tier
from zerosim.trace import labels
from zerosim.trace.sink import CopyRequest
from zerosim.train.collectives import Handle
from zerosim.train.offload.commits import (
    SLOTS,
    Commit,
    SavedState,
    empty,
    file_of,
    go_back,
    newest_state,
    rank_folder,
    set_aside,
    write_commit,
)
from zerosim.train.offload.folder import supports_direct, take
from zerosim.train.offload.layout import Version
from zerosim.train.offload.pool import Buffer, Pool
from zerosim.train.offload.workers import FileJob, Station, Work, Workers

THREADS = 4


class Disk(Protocol):
    """The state of one rank on a disk, by name."""

    def buffer(self, num_bytes: int) -> Buffer:
        """A buffer of the pool, when one is free.

        Args:
            num_bytes: at most the size of the pool's buffers.
        """

    def try_buffer(self, num_bytes: int) -> Buffer | None:
        """A buffer of the pool; None if none is free now."""

    def write(
        self, name: str, source: torch.Tensor, *, on_done: Callable[[], None] | None = None
    ) -> Handle:
        """Write a tensor's bytes as the next version of `name`, in the background."""

    def read(self, name: str, into: torch.Tensor) -> Handle:
        """Fill a tensor with the latest version of `name`, in the background."""

    def commit(self, state: Mapping[str, object]) -> None:
        """Commit everything written so far as the last good state, atomically."""

    def check(self) -> None:
        """Check that all files of the last commit are undamaged."""

    def close(self) -> None:
        """Wait for pending requests; release memory and files."""


class DiskFiles:
    """The state of one rank on a disk, in files. Implements `Disk`.

    After a failure, all later requests fail with the same error, including `commit`.

    Attributes:
        folder: the rank's own folder.
        direct: True if reads and writes of aligned tensors bypass the kernel's page cache.
    """

    def __init__(
        self,
        folder: Path,
        rank: int,
        num_ranks: int,
        *,
        buffers: int,
        buffer_bytes: int,
        threads: int = THREADS,
        state: SavedState | None = None,
    ) -> None:
        """Lock the rank's folder, and begin without a state, or with a committed one.

        Starting without a state removes the files of an earlier run in the rank's folder; starting
        with a state removes later commits.

        Args:
            folder: folder of all ranks; created if missing.
            buffers: maximum number of buffers in use at once.
            buffer_bytes: size of the largest file, without the format's overhead.
            threads: number of files read or written at once.
            state: the result of `last_good`.

        Raises:
            EnvironmentFault: the folder cannot be written, or another process uses it.
            DiskError: the state is not complete on this rank.
        """
        self.folder = rank_folder(folder, rank)
        self._num_ranks = num_ranks
        self._lock = take(self.folder)
        try:
            begin = empty(self.folder) if state is None else go_back(self.folder, state.sequence)
            self.direct = supports_direct(self.folder)
            self._pool = Pool(buffers, buffer_bytes, threads)
        except BaseException:
            os.close(self._lock)
            raise
        self._sequence = begin.sequence
        self._committed = begin.versions
        self._latest = dict(begin.versions)
        self._buffer_bytes = buffer_bytes
        self._allocated: dict[tuple[str, int], int] = {}
        self._last: dict[str, FileJob] = {}
        self._written: dict[str, FileJob] = {}
        self._order = threading.Lock()
        self._changing = threading.Lock()
        self._workers = Workers(self._pool.staging)

    @classmethod
    def last_good(cls, folder: Path, num_ranks: int) -> SavedState | None:
        """The newest state that is complete on every rank; None if not all ranks committed one.

        Files are checked without reading them; damage inside is found when they are read.

        Raises:
            DiskError: states were committed, but none is complete on all ranks.
        """
        return newest_state(folder, num_ranks)

    def buffer(self, num_bytes: int) -> Buffer:
        """A buffer of the pool, when one is free.

        Args:
            num_bytes: at most the pool's `buffer_bytes`.
        """
        buffer = self._pool.take(num_bytes, blocks=True)
        assert buffer is not None, "a pool that blocks gave nothing"
        return buffer

    def try_buffer(self, num_bytes: int) -> Buffer | None:
        """A buffer of the pool; None if none is free now."""
        return self._pool.take(num_bytes, blocks=False)

    def write(
        self, name: str, source: torch.Tensor, *, on_done: Callable[[], None] | None = None
    ) -> Handle:
        """Write a tensor's bytes as the next version of `name`, in the background.

        Args:
            source: contiguous, in the host's memory; it must stay untouched until the end of
                the write.
            on_done: called on the store's thread at the end, successful or not.

        Returns:
            A handle, whose `wait` raises a DiskError if the bytes were not written.
        """
        request = request_of(source, Tier.HOST, Tier.DISK)
        num_bytes = request.payload_bytes
        assert num_bytes <= self._buffer_bytes, f"{num_bytes} bytes of {self._buffer_bytes}"
        with self._changing:
            known = self._committed.get(name)
            slot = 0 if known is None else SLOTS - 1 - known.slot
            version = Version(slot, self._sequence + 1, num_bytes)

            def work(station: Station) -> None:
                self._allocate(name, num_bytes, spared=known)
                file = file_of(self.folder, name, slot)
                with labels.copying(request) as copied:
                    station.counter.begin()
                    file.write(source, version, station.staging, direct=self.direct)
                    copied.counted_bytes = station.counter.end().written
                self._latest[name] = version

            job = self._submit(name, work, on_done)
            self._written[name] = job
        return job

    def read(self, name: str, into: torch.Tensor) -> Handle:
        """Fill a tensor with the latest version of `name`, in the background.

        An earlier write of that name ends first.

        Args:
            into: contiguous, in the host's memory, of as many bytes as were written.

        Returns:
            A handle, whose `wait` raises a DiskError if the bytes are missing, too few, damaged, or
            of another version.
        """
        request = request_of(into, Tier.DISK, Tier.HOST)

        def work(station: Station) -> None:
            version = self._latest.get(name)
            if version is None or version.num_bytes != request.payload_bytes:
                found = "nothing" if version is None else f"{version.num_bytes:,} bytes"
                raise DiskError(
                    f"{self.folder} has {found} of {name}: expected {request.payload_bytes:,} "
                    "bytes; resume with the same model and settings"
                )
            file = file_of(self.folder, name, version.slot)
            with labels.copying(request) as copied:
                station.counter.begin()
                file.read(into, version, station.staging, direct=self.direct)
                copied.counted_bytes = station.counter.end().read

        return self._submit(name, work, None)

    def commit(self, state: Mapping[str, object]) -> None:
        """Commit everything written so far as the last good state, atomically.

        Args:
            state: the program's values for resuming, as JSON values.

        Raises:
            DiskError: something was not written; the previous state remains the last good one.
        """
        with self._changing:
            for job in self._written.values():
                job.wait()
            flushes = [
                self._submit(name, functools.partial(self._flush, name), None)
                for name in self._written
            ]
            for job in flushes:
                job.wait()
            self._written.clear()
            commit = Commit(self._sequence + 1, self._num_ranks, dict(state), dict(self._latest))
            try:
                write_commit(self.folder, commit)
            except DiskError as error:
                self._workers.fail(error)  # it is unknown which of the two states is on the disk
                raise
            self._sequence, self._committed = commit.sequence, commit.versions

    def check(self) -> None:
        """Read all files of the last commit, and check that they are undamaged.

        Raises:
            DiskError: the state is not safe. The commit is discarded: the previous one is then the
                last good state, if there is one.
        """
        for name, version in self._committed.items():
            buffer = self.buffer(version.num_bytes)
            try:
                self.read(name, buffer.tensor).wait()
            except DiskError as error:
                set_aside(self.folder, self._sequence)
                raise DiskError(
                    f"{error}; this state was discarded: resume again from the previous one"
                ) from error
            finally:
                buffer.release()

    def close(self) -> None:
        """End the threads after all pending requests; release memory and folder."""
        self._workers.close()
        self._pool.close()
        os.close(self._lock)

    def _submit(self, name: str, work: Work, on_done: Callable[[], None] | None) -> FileJob:
        """Queue a job behind the last one of its name."""
        with self._order:
            job = self._workers.submit(work, after=self._last.get(name), on_done=on_done)
            self._last[name] = job
        return job

    def _allocate(self, name: str, num_bytes: int, spared: Version | None) -> None:
        """Allocate the space of both files, so that a full disk fails now or never.

        Args:
            spared: the file of the last commit, which is left untouched.
        """
        for slot in range(SLOTS):
            is_known = self._allocated.get((name, slot)) == num_bytes
            if not is_known and (spared is None or spared.slot != slot):
                file_of(self.folder, name, slot).allocate(num_bytes)
                self._allocated[name, slot] = num_bytes

    def _flush(self, name: str, _: Station) -> None:
        version = self._latest[name]
        file_of(self.folder, name, version.slot).sync(version)


def request_of(tensor: torch.Tensor, origin: Tier, target: Tier) -> CopyRequest:
    """How a copy between these tiers is recorded."""
    return CopyRequest(
        origin=origin,
        target=target,
        dtype=str(tensor.dtype).removeprefix("torch."),
        elements=tensor.numel(),
        payload_bytes=tensor.numel() * tensor.element_size(),
    )
