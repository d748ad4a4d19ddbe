"""The file of one rank."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

from zerosim.base.errors import EnvironmentFault
from zerosim.schema.events import End
from zerosim.schema.rows import row_text, seal
from zerosim.schema.shortrows import SEALED_AFTER, seal_row
from zerosim.trace.guard import guarded
from zerosim.trace.mapped import MappedFile

Row = str | bytes
"""A row of text without its checksum (`zerosim.schema.rows`), or a short row
(`zerosim.schema.shortrows`)."""


class Rows(Protocol):
    """The destination of a rank's rows, for several threads."""

    @property
    def num_bytes(self) -> int:
        """Number of bytes written to the current file."""
        ...

    def write(self, name: str, record: Any) -> None:
        """Append one record; after `close`, nothing."""
        ...

    def append(self, *rows: Row) -> None:
        """Append rows, with no other one between them."""
        ...

    def close(self, time_ns: int) -> None:
        """Append the last row and close the file."""
        ...


class RowFile:
    """A file of checksummed rows, each visible once written. Thread-safe.

    Attributes:
        num_bytes: number of bytes written.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._file = MappedFile(path)
        except OSError as error:
            raise EnvironmentFault(
                f"cannot create {path}: {error.strerror}; give a writable folder"
            ) from None
        self._path = path
        self._crc = 0
        self._lock = threading.Lock()
        self._num_rows = self._num_unsealed = 0
        self.num_bytes = 0
        self._closed = False
        self._problem = ""

    @guarded
    def write(self, name: str, record: Any) -> None:
        """Append one record; after `close`, nothing.

        Raises:
            EnvironmentFault: this row, or an earlier one, could not be written completely; the file
                ends there.
        """
        row = row_text(name, record)
        with self._lock:
            if not self._closed:
                self._append((row,))

    @guarded
    def append(self, *rows: Row) -> None:
        """Append rows, with no other one between them.

        Raises:
            EnvironmentFault: as `write`.
        """
        with self._lock:
            if not self._closed:
                self._append(rows)

    @guarded
    def close(self, time_ns: int) -> None:
        """Append the last row and close the file.

        Raises:
            EnvironmentFault: as `write`.
        """
        with self._lock:
            if not self._closed:
                self._closed = True
                self._append((row_text("end", End(time_ns=time_ns, num_rows=self._num_rows)),))
                self._file.close()

    def leave(self) -> str:
        """Close the file without a last row: another file continues it; returns the checksum."""
        with self._lock:
            self._closed = True
            if self._num_unsealed and not self._problem:
                self._end_block()
            self._file.close()
            return f"{self._crc:08x}"

    def tear(self) -> None:
        """Leave half a row, like a rank that is killed while writing."""
        line, _ = seal((row_text("end", End(time_ns=0, num_rows=self._num_rows)),), self._crc)
        with self._lock:
            self._file.append(line[: len(line) // 2])

    def move(self, path: Path) -> None:
        """Rename the file; a file that already has the new name is replaced.

        Raises:
            OSError: it cannot be.
        """
        self._file.move(path)
        self._path = path

    def _append(self, rows: tuple[Row, ...]) -> None:
        content, crc, num_unsealed = b"", self._crc, self._num_unsealed
        for row in rows:
            if isinstance(row, bytes):
                crc = crc32(row, crc)
                content += row
                num_unsealed += 1
            else:
                line, crc = seal((row,), crc)
                content += line
                num_unsealed = 0
        self._write(content)
        self._crc, self._num_unsealed = crc, num_unsealed
        self._num_rows += len(rows)
        if num_unsealed >= SEALED_AFTER:
            self._end_block()

    def _end_block(self) -> None:
        seal = seal_row(self._crc)
        self._write(seal)
        self._crc, self._num_unsealed = crc32(seal, self._crc), 0

    def _write(self, content: bytes) -> None:
        if not self._problem:
            try:
                self._file.append(content)
            except OSError as error:
                self._problem = error.strerror or "it failed"
                self._file.close()
        if self._problem:
            raise EnvironmentFault(
                f"cannot write to {self._path}: {self._problem}; free disk space"
            )
        self.num_bytes += len(content)
