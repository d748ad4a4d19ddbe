"""What a file of the disk tier costs: what it occupies, what the kernel counts, what waits for it.

A file is its bytes, a head of 32 bytes that says what they are, and a checksum of 8 bytes for each
begun block of 1 MiB, padded to whole pages of 4096 bytes: a disk is read and written in pages when
the kernel's cache is passed by. One write or read moves the whole file.
"""

from __future__ import annotations

PAGE_BYTES = 4096
BLOCK_BYTES = 2**20
HEAD_BYTES = 32
CHECKSUM_BYTES = 8
VERSIONS = 2
"""Files of a name: the last good one, and the one that is being written."""


def in_pages(num_bytes: int) -> int:
    """Padded to whole pages: 4096 x ceil(n / 4096)."""
    return PAGE_BYTES * -(-num_bytes // PAGE_BYTES)


def bytes_on_disk(num_bytes: int) -> int:
    """What a file of n bytes occupies, and what the kernel counts for one write or read of it.

    4096 x ceil((n + 32 + 8 x ceil(n / 2**20)) / 4096).
    """
    blocks = -(-num_bytes // BLOCK_BYTES)
    return in_pages(num_bytes + HEAD_BYTES + CHECKSUM_BYTES * blocks)


def overhead_bytes(num_bytes: int) -> int:
    """What the head, the checksums and the padding add to n bytes."""
    return bytes_on_disk(num_bytes) - num_bytes


def pool_bytes(buffers: int, buffer_bytes: int, threads: int) -> int:
    """Host memory that waits for the disk.

    Args:
        buffers: how many there are, each of so many bytes in whole pages.
        threads: how many files are read or written at once; each has room for the end of a file:
            what is left of the last page, head and checksums.

    Returns:
        These, and a page, because memory rarely begins at the beginning of one.
    """
    blocks = -(-buffer_bytes // BLOCK_BYTES)
    end_of_file = in_pages(PAGE_BYTES - 1 + HEAD_BYTES + CHECKSUM_BYTES * blocks)
    return buffers * in_pages(buffer_bytes) + threads * end_of_file + PAGE_BYTES
