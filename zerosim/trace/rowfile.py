"""The file of one rank. Imports the standard library and zerosim's L0."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

from zerosim.errors import EnvironmentFault
from zerosim.events import End
from zerosim.rows import encode_row
from zerosim.trace.guard import guarded


class RowFile:
    """An append-only file of checksummed rows, one system call a row, for several threads."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except OSError as error:
            raise EnvironmentFault(
                f"cannot create {path}: {error.strerror}; give a folder that can be written"
            ) from None
        self._path = path
        self._place = Path(os.path.abspath(path))  # noqa: PTH100 - links stay as they are
        self._identity = _identity(self._file)
        self._crc = 0
        self._lock = threading.Lock()
        self._num_rows = 0
        self._closed = False
        self._problem = ""

    @guarded
    def write(self, name: str, record: Any) -> None:
        """Append one record; after `close`, nothing.

        Raises:
            EnvironmentFault: this row, or one before it, could not be written whole; the file
                ends there.
        """
        with self._lock:
            if not self._closed:
                self._append(name, record)

    @guarded
    def close(self, time_ns: int) -> None:
        """Append the last row and close the file.

        Raises:
            EnvironmentFault: as `write`.
        """
        with self._lock:
            if not self._closed:
                self._closed = True
                self._append("end", End(time_ns=time_ns, num_rows=self._num_rows))
                self._close()

    def _append(self, name: str, record: Any) -> None:
        if not self._problem:
            line, self._crc = encode_row(name, record, self._crc)
            try:
                self._require_own()
                if os.write(self._file, line) < len(line):
                    self._problem = "the disk is full"
            except OSError as error:
                self._problem = error.strerror or "it failed"
            if self._problem:
                self._close()
        if self._problem:
            raise EnvironmentFault(
                f"cannot write to {self._path}: {self._problem}; make room for it"
            )
        self._num_rows += 1

    def _require_own(self) -> None:
        """Open the file anew if the program closed it, whatever the number stands for by now.

        Raises:
            OSError: it is not where it was.
        """
        if _identity(self._file) != self._identity:
            self._file = os.open(self._place, os.O_WRONLY | os.O_APPEND)
            if _identity(self._file) != self._identity:
                raise OSError(errno.ESTALE, "another file has taken its place")

    def _close(self) -> None:
        if _identity(self._file) == self._identity:
            os.close(self._file)


def _identity(descriptor: int) -> tuple[int, int] | None:
    """Which file a descriptor stands for; None if for none."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino
