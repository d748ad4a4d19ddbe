"""The layout of a file of the disk tier, and its trailer.

    bytes | trailer: mark, generation, number of bytes, name, checksum of itself, of each block | 0

The whole is padded to full pages, so that it can bypass the kernel's cache (O_DIRECT).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from zerosim.train.offload.blocks import BLOCK_BYTES, CHECKSUM_BYTES, PAGE_BYTES

_MARK = b"zerosim1"
_HEAD = struct.Struct("<8sQQII")
"""Mark, generation, number of bytes, CRC-32 of the name, CRC-32 of the trailer."""


def in_pages(num_bytes: int) -> int:
    """The number of bytes, padded to whole pages."""
    return -(-num_bytes // PAGE_BYTES) * PAGE_BYTES


def trailer_bytes(num_bytes: int) -> int:
    """Size of the trailer of a file with `num_bytes` bytes, without padding."""
    return _HEAD.size + CHECKSUM_BYTES * -(-num_bytes // BLOCK_BYTES)


def bytes_on_disk(num_bytes: int) -> int:
    """Size of a file with `num_bytes` bytes of data, and of one write or read of it.

    These are the data, 32 bytes for the trailer's head, and 8 per started block of 1 MiB, in pages
    of 4096.
    """
    return in_pages(num_bytes + trailer_bytes(num_bytes))


def staging_bytes(num_bytes: int) -> int:
    """Memory for the last incomplete page of a file of at most `num_bytes`, and its trailer."""
    return in_pages(PAGE_BYTES - 1 + trailer_bytes(num_bytes))


@dataclass(frozen=True, slots=True)
class Version:
    """The expected identity of a file.

    Attributes:
        slot: index of the name's file, 0 or 1.
        generation: the commit of its version.
        num_bytes: size without trailer and padding.
    """

    slot: int
    generation: int
    num_bytes: int


def encode(name: str, version: Version, checksums: Sequence[int]) -> bytes:
    """The trailer of a file.

    Args:
        checksums: of the blocks, signed 64-bit.
    """
    sums = struct.pack(f"<{len(checksums)}q", *checksums)
    return _head(name, version, zlib.crc32(_head(name, version, 0) + sums)) + sums


def decode(name: str, version: Version, trailer: bytes) -> list[int]:
    """The checksums of the blocks, if the trailer is complete and of this name and version.

    Raises:
        ValueError: the trailer is not as expected; the message has both values.
    """
    mark, generation, num_bytes, found_name, own = _HEAD.unpack_from(trailer)
    sums = trailer[_HEAD.size :]
    expected = zlib.crc32(_HEAD.pack(mark, generation, num_bytes, found_name, 0) + sums)
    if mark != _MARK or own != expected:
        raise ValueError(
            f"is damaged at byte {version.num_bytes:,}, in its trailer: checksum {own:08x}, "
            f"expected {expected:08x}"
        )
    if trailer[: _HEAD.size - 4] != _head(name, version, 0)[:-4]:
        raise ValueError(
            "belongs to another file or state, according to its trailer at byte "
            f"{version.num_bytes:,}: generation {generation}, {num_bytes:,} bytes, name "
            f"{found_name:08x}; expected generation {version.generation}, "
            f"{version.num_bytes:,} bytes, name {zlib.crc32(name.encode()):08x}"
        )
    return list(struct.unpack(f"<{len(sums) // CHECKSUM_BYTES}q", sums))


def _head(name: str, version: Version, own: int) -> bytes:
    return _HEAD.pack(_MARK, version.generation, version.num_bytes, zlib.crc32(name.encode()), own)
