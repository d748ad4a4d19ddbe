"""An append-only file that keeps its bytes however the process ends."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from contextlib import suppress
from pathlib import Path

_ROOM = 1 << 16
"""Bytes mapped at a time: a killed rank leaves fewer trailing zeros than this."""
_KEEP_WHAT_IS_ALLOCATED = frozenset({"ext4", "f2fs", "overlay", "tmpfs", "xfs"})
"""File systems on which an allocated byte can be written whatever happens to the disk.

Elsewhere, such as over a network, the kernel would kill the program where `write` returns an error.
"""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
    ctypes.c_int64,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class MappedFile:
    """Appended bytes; each row is visible to any reader once `append` returns.

    They are copied into a mapping of the file's end: no system call, and no descriptor that the
    program could close. Space is allocated in advance, so a full disk is an error, not a signal.
    Where mapping is not possible, the bytes are written. Not thread-safe.
    """

    def __init__(self, path: Path) -> None:
        """Create the file.

        Raises:
            OSError: it exists or cannot be created.
        """
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        self._place = Path(os.path.abspath(path))  # noqa: PTH100 - links stay as they are
        self._identity = _identity(self._file)
        self._is_mapped = hasattr(os, "posix_fallocate") and _keeps_what_is_allocated(self._file)
        self._length = 0
        self._window: _Window | None = None
        self._view = memoryview(bytearray())
        self._at = self._room = 0

    def append(self, content: bytes) -> None:
        """Add bytes at the end.

        Raises:
            OSError: not all of them could be written.
        """
        num_bytes = len(content)
        if num_bytes > self._room and not self._map(num_bytes):
            self._write(content)
            return
        end = self._at + num_bytes
        self._view[self._at : end] = content
        self._at = end
        self._room -= num_bytes

    def close(self) -> None:
        """Truncate the file to its bytes, and release it."""
        had_room = self._window is not None
        self._unmap()
        if had_room:
            with suppress(OSError):  # the zeros stay; every reader skips them
                self._find_again()
                os.ftruncate(self._file, self._length)
        if _identity(self._file) == self._identity:
            os.close(self._file)

    def move(self, path: Path) -> None:
        """Rename the file.

        Raises:
            OSError: it cannot be renamed.
        """
        self._place.replace(path)
        self._place = Path(os.path.abspath(path))  # noqa: PTH100 - links stay as they are

    def _map(self, num_bytes: int) -> bool:
        """Map the end of the file with room for these bytes; False if it cannot be mapped."""
        if not self._is_mapped:
            return False
        self._unmap()
        self._find_again()
        before = self._length % mmap.ALLOCATIONGRANULARITY
        begin = self._length - before
        size = -(-(before + num_bytes) // _ROOM) * _ROOM
        try:
            os.posix_fallocate(self._file, begin, size)
            self._window = _Window(self._file, begin, size)
        except OSError:
            # the error of `write` is the relevant one
            self._is_mapped = False
            with suppress(OSError):
                os.ftruncate(self._file, self._length)
            return False
        self._view, self._at, self._room = self._window.view, before, size - before
        return True

    def _unmap(self) -> None:
        if self._window is not None:
            self._length = self._window.begin + self._at
            self._view, self._at, self._room = memoryview(bytearray()), 0, 0
            self._window.close()
            self._window = None

    def _write(self, content: bytes) -> None:
        self._find_again()
        written = os.pwrite(self._file, content, self._length)
        self._length += written
        if written < len(content):
            raise OSError(errno.ENOSPC, "the disk is full")

    def _find_again(self) -> None:
        """Reopen the file if the program closed it, and perhaps reused its descriptor.

        Raises:
            OSError: the file is not the expected one.
        """
        if _identity(self._file) == self._identity:
            return
        self._file = os.open(self._place, os.O_RDWR)
        if _identity(self._file) != self._identity:
            os.close(self._file)
            raise OSError(errno.ESTALE, "another file has taken its place")


class _Window:
    """A mapped part of a file; Python's `mmap` would keep a descriptor of its own.

    Attributes:
        begin: of the part, in the file.
        view: its bytes, until `close`.
    """

    def __init__(self, file: int, begin: int, size: int) -> None:
        protection = mmap.PROT_READ | mmap.PROT_WRITE
        address = _libc.mmap(None, size, protection, mmap.MAP_SHARED, file, begin)
        if address == ctypes.c_void_p(-1).value:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self.begin = begin
        self.view = memoryview((ctypes.c_char * size).from_address(address)).cast("B")
        self._address, self._size = address, size

    def close(self) -> None:
        """Unmap it."""
        self.view.release()
        _libc.munmap(self._address, self._size)


def _identity(descriptor: int) -> tuple[int, int] | None:
    """The file of a descriptor; None if there is none."""
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _keeps_what_is_allocated(file: int) -> bool:
    """Whether the file is on one of these file systems, according to the mount table."""
    device = os.fstat(file).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounted = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return False
    for fields in map(str.split, mounted):
        if fields[2] == number:
            return fields[fields.index("-") + 1] in _KEEP_WHAT_IS_ALLOCATED
    return False
