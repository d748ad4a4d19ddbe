"""A limited address space: best fit, adjacent free ranges merged."""

from __future__ import annotations

from bisect import bisect_left, insort

ALIGNMENT_BYTES = 512
"""Ranges begin at multiples of it, as those of CUDA's caching allocator do."""


class AddressSpace:
    """Allocates ranges in `limit_bytes` bytes; a range never moves.

    Attributes:
        limit_bytes: its size.
        used_bytes: bytes of all ranges in use, including rounding.
    """

    def __init__(self, limit_bytes: int) -> None:
        """Create an empty address space."""
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._taken: dict[int, int] = {}
        self._by_size: list[tuple[int, int]] = []
        self._by_start: dict[int, int] = {}
        self._by_end: dict[int, int] = {}
        if limit_bytes:
            self._add_free(0, limit_bytes)

    @property
    def free_bytes(self) -> int:
        """Free bytes, in any number of pieces."""
        return self.limit_bytes - self.used_bytes

    @property
    def largest_free_bytes(self) -> int:
        """The size of the largest free piece."""
        return self._by_size[-1][0] if self._by_size else 0

    @property
    def num_free_pieces(self) -> int:
        """The number of free pieces."""
        return len(self._by_size)

    def take(self, num_bytes: int) -> int | None:
        """Allocate a range at the start of the smallest free piece that is large enough.

        Args:
            num_bytes: 1 or more; rounded up to the alignment.

        Returns:
            The start of the range; None if no free piece is large enough.
        """
        needed = rounded(num_bytes)
        index = bisect_left(self._by_size, (needed, 0))
        if index == len(self._by_size):
            return None
        size, offset = self._by_size[index]
        self._remove_free(offset, size)
        if size > needed:
            self._add_free(offset + needed, size - needed)
        self._taken[offset] = needed
        self.used_bytes += needed
        return offset

    def give(self, offset: int) -> None:
        """Free the range that begins at this address."""
        size = self._taken.pop(offset)
        self.used_bytes -= size
        start, end = offset, offset + size
        if (before := self._by_end.get(start)) is not None:
            self._remove_free(before, start - before)
            start = before
        if (after := self._by_start.get(end)) is not None:
            self._remove_free(end, after)
            end += after
        self._add_free(start, end - start)

    def _add_free(self, offset: int, size: int) -> None:
        self._by_start[offset] = size
        self._by_end[offset + size] = offset
        insort(self._by_size, (size, offset))

    def _remove_free(self, offset: int, size: int) -> None:
        del self._by_start[offset]
        del self._by_end[offset + size]
        del self._by_size[bisect_left(self._by_size, (size, offset))]


def rounded(num_bytes: int) -> int:
    """A size, rounded up to the alignment."""
    return -(-num_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
