"""The file of one rank of a light trace: rows older than a window are discarded.

It is written in segments, each a file that can be read by itself: its beginning repeats header,
groups, connections, templates and strategies. The last two segments are kept, so that a window is
complete however a rank ends: the previous segment is renamed once the next one has begun, and
replaces the one before it.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from zerosim.base.errors import EnvironmentFault
from zerosim.schema.events import Header
from zerosim.schema.rows import earlier_file_name, next_file_name, rank_file_name, row_text
from zerosim.trace.guard import guarded
from zerosim.trace.rowfile import Row, RowFile

_STANDING = frozenset({"group", "socket", "template", "place", "strategy"})
"""Rows that later ones refer to, or that apply until others replace them."""
_MOST_STANDING = 1 << 14
"""Twice the tracer's number of templates, so that those in use are among them."""
_LARGE_BYTES = 5_000_000
"""Number of bytes after which the next iteration begins a segment."""
_MOST_BYTES = 10_000_000
"""Maximum number of bytes in a segment, also for a program without iterations."""


class SegmentedFile:
    """Rows of the last iterations, in a `RowFile` for each segment. Thread-safe."""

    def __init__(self, folder: Path, header: Header, *, keep: int) -> None:
        """Begin the first segment.

        Args:
            keep: iterations in a segment.

        Raises:
            EnvironmentFault: the file exists or cannot be created.
        """
        self._folder, self._header, self._keep = folder, header, keep
        self._path = folder / rank_file_name(header.rank)
        self._lock = threading.Lock()
        self._standing: dict[str, None] = {}
        self._iteration = -1
        self._num_iterations = 0
        self._said_again_bytes = 0
        self._is_closed = False
        self._rows = RowFile(self._path)
        self._rows.write("header", header)

    @guarded
    def write(self, name: str, record: Any) -> None:
        """Append one record, as `RowFile.write` does."""
        row = row_text(name, record)
        with self._lock:
            if name in _STANDING:
                self._standing[row] = None
                if len(self._standing) > _MOST_STANDING:
                    del self._standing[next(iter(self._standing))]
            self._rows.append(row)
            self._bound()

    @guarded
    def append(self, *rows: Row) -> None:
        """Append rows, as `RowFile.append` does."""
        with self._lock:
            self._rows.append(*rows)
            self._bound()

    @guarded
    def enters(self, iteration: int) -> None:
        """The process is in an iteration that is recorded; a new one may begin a segment.

        Raises:
            EnvironmentFault: it cannot be written.
        """
        if iteration == self._iteration or iteration < 0:
            return
        self._iteration = iteration
        with self._lock:
            if self._num_iterations >= self._keep or self._num_bytes > _LARGE_BYTES:
                self._begin_segment(iteration)
            self._num_iterations += 1

    def close(self, time_ns: int) -> None:
        """Append the last row and close the file, as `RowFile.close` does."""
        with self._lock:
            self._is_closed = True
            self._rows.close(time_ns)

    @property
    def num_bytes(self) -> int:
        """Bytes written to the current segment."""
        return self._rows.num_bytes

    @property
    def _num_bytes(self) -> int:
        """Those of the segment, without the repeated rows."""
        return self._rows.num_bytes - self._said_again_bytes

    def _bound(self) -> None:
        if self._num_bytes > _MOST_BYTES:
            self._begin_segment(None)

    def _begin_segment(self, iteration: int | None) -> None:
        if self._is_closed:
            return
        begun = self._folder / next_file_name(self._header.rank)
        earlier = self._folder / earlier_file_name(self._header.rank)
        try:
            begun.unlink(missing_ok=True)
            rows = RowFile(begun)
            self._header = replace(
                self._header,
                segment=self._header.segment + 1,
                follows=self._rows.leave(),
                since=iteration,
            )
            rows.write("header", self._header)
            rows.append(*self._standing)
            self._path.replace(earlier)
            rows.move(self._path)
        except OSError as error:
            raise EnvironmentFault(
                f"cannot write to {self._folder}: {error.strerror}; free disk space"
            ) from None
        self._rows, self._num_iterations = rows, 0
        self._said_again_bytes = rows.num_bytes
