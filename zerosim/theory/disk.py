"""The cost of a file of the disk tier: its size, the kernel's count, its buffers.

A file contains the data, a header of 32 bytes that identifies them, and a checksum of 8 bytes per
started block of 1 MiB. It is padded to whole pages of 4096 bytes, since direct I/O reads and writes
pages. One write or read moves the whole file.
"""

from __future__ import annotations

PAGE_BYTES = 4096
BLOCK_BYTES = 2**20
HEAD_BYTES = 32
CHECKSUM_BYTES = 8
VERSIONS = 2
"""Files per name: the last good one, and the one being written."""


def in_pages(num_bytes: int) -> int:
    """The size of n bytes padded to whole pages: 4096 x ceil(n / 4096)."""
    return PAGE_BYTES * -(-num_bytes // PAGE_BYTES)


def bytes_on_disk(num_bytes: int) -> int:
    """The size of a file of n bytes, equal to the kernel's count for one write or read of it.

    4096 x ceil((n + 32 + 8 x ceil(n / 2**20)) / 4096).
    """
    blocks = -(-num_bytes // BLOCK_BYTES)
    return in_pages(num_bytes + HEAD_BYTES + CHECKSUM_BYTES * blocks)


def overhead_bytes(num_bytes: int) -> int:
    """The bytes that header, checksums and padding add to n bytes."""
    return bytes_on_disk(num_bytes) - num_bytes


def pool_bytes(buffers: int, buffer_bytes: int, threads: int) -> int:
    """Host memory for reads from and writes to the disk.

    Args:
        buffers: number of buffers, each of `buffer_bytes` rounded up to pages.
        threads: number of files that are read or written at once; each needs room for the end
            of a file: the rest of the last page, header and checksums.

    Returns:
        The bytes of the buffers, and one page for alignment.
    """
    blocks = -(-buffer_bytes // BLOCK_BYTES)
    end_of_file = in_pages(PAGE_BYTES - 1 + HEAD_BYTES + CHECKSUM_BYTES * blocks)
    return buffers * in_pages(buffer_bytes) + threads * end_of_file + PAGE_BYTES
