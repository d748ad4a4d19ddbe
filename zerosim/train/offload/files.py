"""One file of the disk tier: allocated, written, read and checked.

It is read and written with as few system calls as the kernel allows, all on the calling thread, so
that the kernel's count for that thread is the count for the file. It is opened each time, so that a
missing file is noticed.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from zerosim.base.errors import DiskError
from zerosim.train.offload.blocks import BLOCK_BYTES, PAGE_BYTES, checksums
from zerosim.train.offload.layout import Version, bytes_on_disk, decode, encode, trailer_bytes

_WRITABLE = 0x200
_memory_at = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int
)(("PyMemoryView_FromMemory", ctypes.pythonapi))  # fmt: skip
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_AGAIN = "resume from the last good state"


class DiskFile:
    """One of the files of a name.

    Attributes:
        path: its path.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self._name = name

    def allocate(self, num_bytes: int) -> None:
        """Create the file with its space allocated on the disk.

        Raises:
            DiskError: there is no room, or it cannot be created.
        """
        size = bytes_on_disk(num_bytes)
        with self._explained("create", size), self._opened(os.O_RDWR | os.O_CREAT) as file:
            if os.fstat(file).st_size > size:
                os.ftruncate(file, size)
            os.posix_fallocate(file, 0, size)

    def write(
        self, source: torch.Tensor, version: Version, staging: torch.Tensor, *, direct: bool
    ) -> None:
        """Replace the contents of the file.

        Args:
            source: contiguous, on the CPU.
            staging: `staging_bytes` of memory at an aligned address.
            direct: bypass the kernel's cache, if the tensor's address allows it.

        Raises:
            DiskError: the file is gone, there is no room, or the disk failed.
        """
        data = _bytes_of(source)
        pages, rest, tail = _divide(data, staging)
        rest.zero_()
        rest[:tail] = data[pages.numel() :]
        sums = checksums(pages, _last_page(rest, tail)).tolist()
        trailer = encode(self._name, version, sums)
        _memory(rest)[tail : tail + len(trailer)] = trailer
        size = bytes_on_disk(version.num_bytes)
        flags = os.O_WRONLY | _direct(pages, wanted=direct)
        with self._explained("write", size), self._opened(flags) as file:
            written = _move(os.pwritev, file, [_memory(pages), _memory(rest)])
        if written < size:
            raise self._no_room(size)

    def read(
        self, into: torch.Tensor, version: Version, staging: torch.Tensor, *, direct: bool
    ) -> None:
        """Fill a tensor with the contents of this version.

        Args: as for `write`.

        Raises:
            DiskError: the file is gone, short, damaged, or another version.
        """
        data = _bytes_of(into)
        pages, rest, tail = _divide(data, staging)
        flags = os.O_RDONLY | _direct(pages, wanted=direct)
        with self._explained("read", bytes_on_disk(data.numel())), self._opened(flags) as file:
            self._require(_move(os.preadv, file, [_memory(pages), _memory(rest)]), version)
        trailer = bytes(_memory(rest)[tail : tail + trailer_bytes(data.numel())])
        expected = self._decoded(version, trailer)
        data[pages.numel() :] = rest[:tail]
        rest[tail:PAGE_BYTES].zero_()
        found = checksums(pages, _last_page(rest, tail)).tolist()
        for index, (checksum, right) in enumerate(zip(found, expected, strict=True)):
            if checksum != right:
                begin = index * BLOCK_BYTES
                end = min(begin + BLOCK_BYTES, data.numel())
                raise DiskError(
                    f"{self.path} is damaged between byte {begin:,} and {end:,}: checksum "
                    f"{checksum % 2**64:016x}, expected {right % 2**64:016x}; check "
                    f"the disk, then {_AGAIN}"
                )

    def inspect(self, version: Version) -> None:
        """Check that the file exists, is long enough, and has this version, without reading its
        bytes.

        Raises:
            DiskError: it does not, or is not.
        """
        size = bytes_on_disk(version.num_bytes)
        with self._explained("read", size), self._opened(os.O_RDONLY) as file:
            self._require(os.fstat(file).st_size, version)
            trailer = os.pread(file, trailer_bytes(version.num_bytes), version.num_bytes)
        self._decoded(version, trailer)

    def sync(self, version: Version) -> None:
        """Return when written data is on the disk.

        Raises:
            DiskError: the file is gone, or the disk failed.
        """
        size = bytes_on_disk(version.num_bytes)
        with self._explained("flush", size), self._opened(os.O_WRONLY) as file:
            os.fdatasync(file)

    def _require(self, found: int, version: Version) -> None:
        expected = bytes_on_disk(version.num_bytes)
        if found < expected:
            raise DiskError(
                f"{self.path} ends at byte {found:,}: expected {expected:,} bytes, of which "
                f"{version.num_bytes:,} are data; it was cut off: {_AGAIN}"
            )

    def _decoded(self, version: Version, trailer: bytes) -> list[int]:
        try:
            return decode(self._name, version, trailer)
        except ValueError as error:
            raise DiskError(f"{self.path} {error}; check the disk, then {_AGAIN}") from None

    @contextmanager
    def _opened(self, flags: int) -> Iterator[int]:
        file = os.open(self.path, flags | os.O_CLOEXEC, 0o644)
        try:
            yield file
        finally:
            os.close(file)

    @contextmanager
    def _explained(self, what: str, size: int) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise DiskError(
                f"{self.path} is gone: expected a file of {size:,} bytes to {what}; "
                f"do not change the files while zerosim runs, and {_AGAIN}"
            ) from None
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise self._no_room(size) from None
            raise DiskError(
                f"cannot {what} {self.path}: {error.strerror}; check the disk, then {_AGAIN}"
            ) from error

    def _no_room(self, size: int) -> DiskError:
        free = ""
        with suppress(OSError):
            found = os.statvfs(self.path.parent)
            free = f" ({found.f_bavail * found.f_frsize:,} bytes)"
        return DiskError(
            f"no room for {self.path}, which needs {size:,} bytes: the disk has too little free "
            f"space{free} or does not allow a file that large; make room or give another folder, "
            f"then {_AGAIN}"
        )


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's memory as uint8."""
    assert tensor.device.type == "cpu", f"a tensor on {tensor.device} for the disk"
    assert tensor.is_contiguous(), "a tensor with gaps for the disk"
    return tensor.detach().view(-1).view(torch.uint8)


def _memory(data: torch.Tensor) -> memoryview:
    """The argument of system calls; the tensor must be kept alive."""
    if not data.numel():
        return memoryview(bytearray())
    view: memoryview = _memory_at(data.data_ptr(), data.numel(), _WRITABLE)
    return view


def _divide(data: torch.Tensor, staging: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """The whole pages; memory for the rest of the file; how many bytes of data are in that."""
    tail = data.numel() % PAGE_BYTES
    pages = data[: data.numel() - tail]
    return pages, staging[: bytes_on_disk(data.numel()) - pages.numel()], tail


def _last_page(rest: torch.Tensor, tail: int) -> torch.Tensor:
    """The incomplete last page; nothing if there is none."""
    return rest[: PAGE_BYTES if tail else 0]


def _direct(pages: torch.Tensor, *, wanted: bool) -> int:
    return os.O_DIRECT if wanted and pages.data_ptr() % PAGE_BYTES == 0 else 0


def _move(
    call: Callable[[int, Sequence[memoryview], int], int], file: int, views: list[memoryview]
) -> int:
    """Read or write everything from the file's beginning; returns the number of bytes
    transferred.
    """
    moved = 0
    while views := [view for view in views if len(view)]:
        count = call(file, views, moved)
        if not count:
            break
        moved += count
        for index, view in enumerate(views):
            taken = min(count, len(view))
            views[index] = view[taken:]
            count -= taken
    return moved
