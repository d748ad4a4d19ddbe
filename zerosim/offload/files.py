"""One file of the disk tier: its bytes, then what is needed to know that they are whole.

    bytes | trailer: mark, generation, number of bytes, name, checksum of itself, of each block | 0

The whole is padded to 4096 bytes, so that it can pass the kernel's page cache by (O_DIRECT), and it
is read and written with as few system calls as the kernel allows. A block is 1 MiB and its checksum
CRC-32, as in a trace. Reads and writes of one file happen on one thread, so the kernel's count for
that thread is the count for the file.

Imports the standard library, torch (for the addresses of tensors) and `zerosim.errors`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from zerosim.errors import DiskError

ALIGNMENT = 4096
"""What O_DIRECT asks of addresses, offsets and lengths, on every disk in use."""
BLOCK_BYTES = 1 << 20
"""Bytes that share a checksum."""

_MARK = b"zerosim1"
_HEAD = struct.Struct("<8sQQII")
"""Mark, generation, number of bytes, checksum of the name, checksum of the trailer."""
_CHECKSUM_BYTES = 4
_WRITABLE = 0x200
_memory_at = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", ctypes.pythonapi)
)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_AGAIN = "resume from the last good state"


def aligned(num_bytes: int) -> int:
    """So many bytes, padded to the next multiple of 4096."""
    return -(-num_bytes // ALIGNMENT) * ALIGNMENT


def trailer_bytes(num_bytes: int) -> int:
    """What stands behind so many bytes in a file, without the padding."""
    return _HEAD.size + _CHECKSUM_BYTES * -(-num_bytes // BLOCK_BYTES)


def bytes_on_disk(num_bytes: int) -> int:
    """What a file of so many bytes occupies, and what one write or read of it moves.

    The bytes, 32 for the trailer's head, 4 for each begun block of 1 MiB, all padded to 4096.
    """
    return aligned(num_bytes + trailer_bytes(num_bytes))


def staging_bytes(num_bytes: int) -> int:
    """What a thread needs for the last incomplete page of such a file and its trailer, at most."""
    return aligned(ALIGNMENT - 1 + trailer_bytes(num_bytes))


@dataclass(frozen=True, slots=True)
class Version:
    """What a file should hold.

    Attributes:
        slot: which of the name's two files it is in.
        generation: the commit that it was written for.
        num_bytes: without trailer and padding.
    """

    slot: int
    generation: int
    num_bytes: int


def view_of(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous tensor in the host's memory; the tensor must be kept alive."""
    assert tensor.device.type == "cpu", f"a tensor on {tensor.device} for the disk"
    assert tensor.is_contiguous(), "a tensor with gaps for the disk"
    num_bytes = tensor.numel() * tensor.element_size()
    if not num_bytes:
        return memoryview(bytearray())
    view: memoryview = _memory_at(tensor.data_ptr(), num_bytes, _WRITABLE)
    return view


def can_pass_cache(tensor: torch.Tensor) -> bool:
    """True if O_DIRECT may read and write at the tensor's address."""
    return tensor.data_ptr() % ALIGNMENT == 0


class DiskFile:
    """One of the files of a name.

    Attributes:
        path: where it lies.
    """

    def __init__(self, path: Path, name: str) -> None:
        """Nothing is opened before it is needed, so that a file that vanished is noticed."""
        self.path = path
        self._name = zlib.crc32(name.encode())

    def allocate(self, num_bytes: int) -> None:
        """Create the file, and have the disk set its room aside.

        Raises:
            DiskError: there is no room, or it cannot be created.
        """
        needed = bytes_on_disk(num_bytes)
        with self._explained("create", needed), self._opened(os.O_RDWR | os.O_CREAT) as file:
            if os.fstat(file).st_size > needed:
                os.ftruncate(file, needed)
            os.posix_fallocate(file, 0, needed)

    def write(
        self, source: torch.Tensor, generation: int, staging: torch.Tensor, *, direct: bool
    ) -> None:
        """Replace what is in the file.

        Args:
            source: any shape and dtype.
            staging: `staging_bytes` of memory at an aligned address.
            direct: pass the page cache by, if the tensor's address allows it.

        Raises:
            DiskError: it is gone, there is no room, or the disk failed.
        """
        data = view_of(source)
        whole, rest = _divide(data, staging)
        tail = len(data) - len(whole)
        rest[:tail] = data[len(whole) :]
        trailer = self._trailer(data, generation)
        rest[tail : tail + len(trailer)] = trailer
        rest[tail + len(trailer) :] = bytes(len(rest) - tail - len(trailer))
        flags = os.O_WRONLY | (os.O_DIRECT if direct and can_pass_cache(source) else 0)
        with self._explained("write", bytes_on_disk(len(data))), self._opened(flags) as file:
            written = _move(os.pwritev, file, [whole, rest])
        if written < len(whole) + len(rest):
            raise self._no_room(bytes_on_disk(len(data)))

    def read(
        self, into: torch.Tensor, version: Version, staging: torch.Tensor, *, direct: bool
    ) -> None:
        """Fill a tensor with what was written as this version.

        Raises:
            DiskError: it is gone, short, damaged, or another version.
        """
        data = view_of(into)
        assert len(data) == version.num_bytes, f"{len(data)} bytes for {version}"
        whole, rest = _divide(data, staging)
        flags = os.O_RDONLY | (os.O_DIRECT if direct and can_pass_cache(into) else 0)
        with self._explained("read", bytes_on_disk(len(data))), self._opened(flags) as file:
            found = _move(os.preadv, file, [whole, rest])
        self._require_length(found, len(data))
        tail = len(data) - len(whole)
        data[len(whole) :] = rest[:tail]
        checksums = self._checked(bytes(rest[tail : tail + trailer_bytes(len(data))]), version)
        for index, (found_sum, expected) in enumerate(zip(_sums(data), checksums, strict=True)):
            if found_sum != expected:
                begin = index * BLOCK_BYTES
                end = min(begin + BLOCK_BYTES, len(data))
                raise DiskError(
                    f"{self.path} is damaged in bytes {begin:,} to {end:,}: checksum "
                    f"{found_sum:08x}, expected {expected:08x}; see to the disk, then {_AGAIN}"
                )

    def inspect(self, version: Version) -> None:
        """See that the file is there, long enough, and of this version; its bytes are not read.

        Raises:
            DiskError: it is not.
        """
        size = bytes_on_disk(version.num_bytes)
        with self._explained("read", size), self._opened(os.O_RDONLY) as file:
            self._require_length(os.fstat(file).st_size, version.num_bytes)
            trailer = os.pread(file, trailer_bytes(version.num_bytes), version.num_bytes)
        self._checked(trailer, version)

    def sync(self, num_bytes: int) -> None:
        """Return when the bytes that were written, so many, are on the disk.

        Raises:
            DiskError: the file is gone, or the disk failed.
        """
        with self._explained("flush", bytes_on_disk(num_bytes)), self._opened(os.O_WRONLY) as file:
            os.fdatasync(file)

    def _trailer(self, data: memoryview, generation: int) -> bytes:
        sums = b"".join(value.to_bytes(_CHECKSUM_BYTES, "little") for value in _sums(data))
        own = zlib.crc32(_HEAD.pack(_MARK, generation, len(data), self._name, 0) + sums)
        return _HEAD.pack(_MARK, generation, len(data), self._name, own) + sums

    def _checked(self, trailer: bytes, version: Version) -> list[int]:
        """The blocks' checksums, if the trailer is whole and of this version."""
        mark, generation, num_bytes, name, own = _HEAD.unpack_from(trailer)
        sums = trailer[_HEAD.size :]
        where = f"at byte {version.num_bytes:,}"
        expected = zlib.crc32(_HEAD.pack(mark, generation, num_bytes, name, 0) + sums)
        if mark != _MARK or own != expected:
            raise DiskError(
                f"{self.path} is damaged {where}: checksum {own:08x} of its trailer, expected "
                f"{expected:08x}; see to the disk, then {_AGAIN}"
            )
        found = (generation, num_bytes, name)
        if found != (version.generation, version.num_bytes, self._name):
            raise DiskError(
                f"{self.path} holds generation {generation} of {num_bytes:,} bytes (name "
                f"{name:08x}, {where}): expected generation {version.generation} of "
                f"{version.num_bytes:,} bytes (name {self._name:08x}); was another state copied "
                f"over it? {_AGAIN}"
            )
        step = _CHECKSUM_BYTES
        return [int.from_bytes(sums[at : at + step], "little") for at in range(0, len(sums), step)]

    def _require_length(self, found: int, num_bytes: int) -> None:
        expected = bytes_on_disk(num_bytes)
        if found < expected:
            raise DiskError(
                f"{self.path} ends at byte {found:,}: expected {expected:,} bytes, of which "
                f"{num_bytes:,} are data; it was cut off: {_AGAIN}"
            )

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
                f"{self.path} is gone: expected {size:,} bytes to {what}; "
                f"leave the files alone while zerosim runs, and {_AGAIN}"
            ) from None
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise self._no_room(size) from None
            raise DiskError(
                f"cannot {what} {self.path}: {error.strerror}; see to the disk, then {_AGAIN}"
            ) from error

    def _no_room(self, needed: int) -> DiskError:
        free = "an unknown number"
        with suppress(OSError):
            found = os.statvfs(self.path.parent)
            free = f"{found.f_bavail * found.f_frsize:,}"
        return DiskError(
            f"no room for {self.path}: it needs {needed:,} bytes, the disk has {free} free (or "
            f"allows no file so large); make room or give another folder, then {_AGAIN}"
        )


def _divide(data: memoryview, staging: torch.Tensor) -> tuple[memoryview, memoryview]:
    """The whole pages of `data`, and memory for the rest, the trailer and the padding."""
    whole = data[: len(data) // ALIGNMENT * ALIGNMENT]
    return whole, view_of(staging)[: bytes_on_disk(len(data)) - len(whole)]


def _move(
    call: Callable[[int, Sequence[memoryview], int], int], file: int, views: list[memoryview]
) -> int:
    """Read or write all of it from the file's beginning on; returns how many bytes came through."""
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


def _sums(data: memoryview) -> Iterator[int]:
    """The checksum of each block."""
    for begin in range(0, len(data), BLOCK_BYTES):
        yield zlib.crc32(data[begin : begin + BLOCK_BYTES])
