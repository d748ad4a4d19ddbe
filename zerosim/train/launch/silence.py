"""Ranks that write no row during a call for long: they will never continue.

A backend aborts a collective after its timeout, or never: NCCL's own watchdog may hang. The
launcher therefore checks the last row of each rank: a hanging rank records that, and its call
(`Standstill`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from zerosim.schema.rows import last_row, rank_file_name

_TAIL_BYTES = 1 << 18
"""Bytes to read at the end: a file reserves up to 64 KiB for further rows; a row is shorter."""
_STANDS = b'{"row":"standstill"'


class Silence:
    """Monitors how long the ranks of a run write no row in a call.

    Attributes:
        longest_s: the limit after which the run is ended.
    """

    def __init__(self, folders: Sequence[Path], num_ranks: int, longest_s: float) -> None:
        """Create a monitor.

        Args:
            folders: of the traces that the ranks write, one after another.
        """
        self.longest_s = longest_s
        self._folders, self._num_ranks = folders, num_ranks
        self._since_s: float | None = None
        self._rows: list[bytes] = []

    def is_over(self, now_s: float, ended: Sequence[int] = ()) -> bool:
        """Whether no running rank has written a row for too long, with one of them in a call.

        Args:
            ended: the ranks that have ended by themselves.
        """
        rows = [
            row
            for rank in range(self._num_ranks)
            if rank not in ended and (row := self._last_row(rank)) is not None
        ]
        stand = len(rows) == self._num_ranks - len(ended) and all(map(_stands, rows))
        if not rows or not stand or not any(map(_is_in_call, rows)):
            self._since_s, self._rows = None, []
            return False
        if rows != self._rows or self._since_s is None:
            self._since_s, self._rows = now_s, rows
        return now_s - self._since_s >= self.longest_s

    def _last_row(self, rank: int) -> bytes | None:
        """The last row that a rank wrote, into the newest trace that it writes; None if none."""
        for folder in reversed(self._folders):
            try:
                with (folder / rank_file_name(rank)).open("rb") as file:
                    end = file.seek(0, os.SEEK_END)
                    file.seek(max(0, end - _TAIL_BYTES))
                    return last_row(file.read()) or None
            except OSError:
                continue
        return None


def _stands(row: bytes) -> bool:
    return row.startswith(_STANDS)


def _is_in_call(row: bytes) -> bool:
    return json.loads(row).get("call") is not None
