"""The disk store against a plain sequential write and read of the same bytes.

`python -m tests.bench.disk [FOLDER]`. Both sides pass the page cache by if the file system lets
them, and write into files whose room was set aside; they are run in turn. "Flushed" is on the disk
whatever happens: the plain file is flushed once, the store flushes each file and commits.
"""

from __future__ import annotations

import mmap
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

import torch

from tests.bench.pages import _busy_cores
from tests.bench.pairs import Pairs
from zerosim.train.offload import DiskFiles, files
from zerosim.train.offload.disk import THREADS

GOAL = 0.9
PAIRS = 15
BUFFERS = 4
SIZES = ((64 << 20, 4), (16 << 20, 16), (4 << 20, 32), (1 << 20, 64), (256 << 10, 64))
"""Bytes of a file, and how many of them: those of a unit's states or parameters."""
ON_DISK = Path("/var/tmp")  # noqa: S108 - unlike /tmp never in memory; nothing there is trusted
OTHER_THREADS = (1, 2, 8)
OTHERS_SIZE = SIZES[1]


@dataclass(frozen=True)
class Plain:
    """One file, written and read from its beginning to its end, a call for each of the others.

    Its memory is as much as the store's: a single piece would stay in the processor's cache.
    """

    file: int
    memory: list[mmap.mmap]
    num_bytes: int
    num: int

    def write(self) -> None:
        for index in range(self.num):
            piece = self.memory[index % BUFFERS]
            count = os.pwritev(self.file, [piece], index * self.num_bytes)
            assert count == self.num_bytes, f"wrote {count} bytes"

    def write_flushed(self) -> None:
        self.write()
        os.fdatasync(self.file)

    def read(self) -> None:
        for index in range(self.num):
            piece = self.memory[index % BUFFERS]
            count = os.preadv(self.file, [piece], index * self.num_bytes)
            assert count == self.num_bytes, f"read {count} bytes"


@dataclass(frozen=True)
class Store:
    """Files through the pool: a buffer is asked for, used, and given back."""

    disk: DiskFiles
    num_bytes: int
    num: int

    def write(self) -> None:
        coming = []
        for index in range(self.num):
            buffer = self.disk.buffer(self.num_bytes)
            coming.append(self.disk.write(f"{index}", buffer.tensor, on_done=buffer.release))
        for handle in coming:
            handle.wait()

    def write_flushed(self) -> None:
        self.write()
        self.disk.commit({})

    def read(self) -> None:
        coming = []
        for index in range(self.num):
            if len(coming) == BUFFERS:
                _finish(*coming.pop(0))
            buffer = self.disk.buffer(self.num_bytes)
            coming.append((buffer, self.disk.read(f"{index}", buffer.tensor)))
        for one in coming:
            _finish(*one)


def _finish(buffer, handle) -> None:
    handle.wait()
    buffer.release()


@contextmanager
def _both(folder: Path, num_bytes: int, num: int, threads: int) -> Iterator[tuple[Plain, Store]]:
    folder.mkdir()
    disk = DiskFiles(folder, 0, 1, buffers=BUFFERS, buffer_bytes=num_bytes, threads=threads)
    buffers = [disk.buffer(num_bytes) for _ in range(BUFFERS)]
    for buffer in buffers:
        buffer.tensor.random_()
        buffer.release()
    flags = os.O_RDWR | os.O_CREAT | (os.O_DIRECT if disk.direct else 0)
    file = os.open(folder / "plain", flags, 0o600)
    os.posix_fallocate(file, 0, num_bytes * num)
    memory = [mmap.mmap(-1, num_bytes) for _ in range(BUFFERS)]
    for piece in memory:
        piece.write(os.urandom(num_bytes))
    try:
        yield Plain(file, memory, num_bytes, num), Store(disk, num_bytes, num)
    finally:
        disk.close()
        os.close(file)


def _in_turn(store: Callable[[], None], plain: Callable[[], None]) -> Pairs:
    """Seconds of both, taken A B B A; one pair more warms up, and fills both versions of a file."""
    taken: dict[Callable[[], None], list[float]] = {store: [], plain: []}
    for number in range(PAIRS + 2):
        for way in (store, plain) if number % 2 else (plain, store):
            begin = time.perf_counter()
            way()
            if number > 1:
                taken[way].append(time.perf_counter() - begin)
    return Pairs(tuple(taken[store]), tuple(taken[plain]))


def _measure(folder: Path, num_bytes: int, num: int, threads: int) -> dict[str, Pairs]:
    with _both(folder, num_bytes, num, threads) as (plain, store):
        return {
            "write, flushed": _in_turn(store.write_flushed, plain.write_flushed),
            "write": _in_turn(store.write, plain.write),
            "read": _in_turn(store.read, plain.read),
        }


def _unchecked(whole: torch.Tensor, last_page: torch.Tensor) -> torch.Tensor:
    blocks = -(-(whole.numel() + last_page.numel()) // files.BLOCK_BYTES)
    return torch.zeros(blocks, dtype=torch.int64)


def table(place: Path | None = None) -> list[str]:
    """The figures as lines of Markdown.

    Args:
        place: a folder on the disk that is to be measured; by default `ON_DISK`.
    """
    busy = _busy_cores()
    with tempfile.TemporaryDirectory(dir=place or ON_DISK) as name:
        root = Path(name)
        with _both(root / "probe", 4096, 1, 1) as (_, probe):
            flags = "O_DIRECT" if probe.disk.direct else "through the page cache"
        found = {size: _measure(root / f"{size[0]}", *size, threads=THREADS) for size in SIZES}
        others = {
            f"{threads} thread{'s' * (threads > 1)}": _measure(
                root / f"threads-{threads}", *OTHERS_SIZE, threads=threads
            )
            for threads in OTHER_THREADS
        }
        with mock.patch.object(files, "checksums", _unchecked):
            others["without checksums"] = _measure(
                root / "unchecked", *OTHERS_SIZE, threads=THREADS
            )
    lines = [
        "## The disk store",
        "",
        (
            f"`python -m tests.bench --only disk`, {datetime.now(UTC):%Y-%m-%d}: {flags}, space "
            f"allocated in advance; {os.cpu_count()} cores, of which other programs used "
            f"{busy:.2f} at the start; one thread of PyTorch. {THREADS} threads read and write "
            f'{BUFFERS} buffers. "Plain" is one file, written or read sequentially with calls as '
            "large as the files, from ordinary memory (the pool requests huge pages). "
            '"Flushed" flushes the plain file once; the store flushes each file and commits. '
            f"Both alternate. The ratio of their bandwidths is the median over {PAIRS} pairs, with "
            "its quartiles: above 1, the store is faster."
        ),
        "",
        "| files | | store, GB/s | plain, GB/s | store/plain | quartiles | goal | holds |",
        "| --- " * 8 + "|",
    ]
    for (num_bytes, num), pairs in found.items():
        for what, pair in pairs.items():
            ratio = 1 / pair.ratio
            lines.append(
                f"| {num} of {_size(num_bytes)} {_row(what, pair, num_bytes * num)} "
                f"| {GOAL} | {'yes' if ratio >= GOAL else '**no**'} |"
            )
    lines += [
        "",
        f"Otherwise, {OTHERS_SIZE[1]} files of {_size(OTHERS_SIZE[0])}:",
        "",
        "| | | store, GB/s | plain, GB/s | store/plain | quartiles |",
        "| --- " * 6 + "|",
    ]
    for name, pairs in others.items():
        for what, pair in pairs.items():
            lines.append(f"| {name} {_row(what, pair, OTHERS_SIZE[0] * OTHERS_SIZE[1])} |")
    return [*lines, ""]


def _row(what: str, pair: Pairs, num_bytes: int) -> str:
    first, third = pair.spread
    return (
        f"| {what} | {_speed(num_bytes, pair.seconds_a)} | {_speed(num_bytes, pair.seconds_b)} "
        f"| **{1 / pair.ratio:.2f}** | {1 / third:.2f} to {1 / first:.2f}"
    )


def _speed(num_bytes: int, seconds: tuple[float, ...]) -> str:
    return f"{num_bytes / statistics.median(seconds) / 1e9:.2f}"


def _size(num_bytes: int) -> str:
    return f"{num_bytes >> 20} MiB" if num_bytes >> 20 else f"{num_bytes >> 10} KiB"


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    print("\n".join(table(Path(sys.argv[1]) if len(sys.argv) > 1 else None)))


if __name__ == "__main__":
    main()
