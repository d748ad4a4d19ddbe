"""The activities of one rank's main thread, piece by piece.

A computation that was interrupted, by a wait within it or by another computation, becomes several
pieces: the one that began last runs. A wait is the moment at which the program continued; a border
is the moment at which a phase began.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zerosim.analysis.graph.table import Ints, Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Pieces in the order of time.

    Attributes:
        item: index in the input.
        start, end: ns; equal for a moment.
    """

    item: Ints
    start: Ints
    end: Ints


def main_lane(start: Ints, end: Ints, is_moment: Mask) -> Lane:
    """Lay out activities that may interrupt each other.

    Args:
        start, end: ns, in order of start for equal times.
        is_moment: True for those that count at their end only.
    """
    order = np.lexsort((np.arange(len(start)), end, start))
    first, last = start[order], end[order]
    if not np.any(first[1:] < last[:-1]):
        begins = np.where(is_moment[order], last, first)
        return Lane(item=order, start=begins, end=last)
    return _cut(start, end, is_moment)


def _cut(start: Ints, end: Ints, is_moment: Mask) -> Lane:
    """The same with interruptions; linear after sorting."""
    # of two that begin together, the longer one contains the other
    order = np.lexsort((np.arange(len(start)), -end, start))
    sweep = _Sweep(end.tolist(), is_moment.tolist())
    for item, begin in zip(order.tolist(), start[order].tolist(), strict=True):
        sweep.begin(item, begin)
    sweep.finish()
    columns = np.array(sweep.pieces, np.int64).reshape(-1, 3).T
    return Lane(item=columns[0], start=columns[1], end=columns[2])


class _Sweep:
    """A sweep over time; the activity that began last runs."""

    def __init__(self, ends: list[int], moments: list[bool]) -> None:
        self.ends = ends
        self.moments = moments
        self.pieces: list[tuple[int, int, int]] = []
        self.running: list[int] = []
        self.shown: set[int] = set()
        self.now = 0

    def begin(self, item: int, begin: int) -> None:
        while self.running and self.ends[self.running[-1]] <= begin:
            self._end_last()
        if self.running:
            self._interrupt(max(self.now, begin))
        self.now = max(self.now, begin)
        self.running.append(item)

    def finish(self) -> None:
        while self.running:
            self._end_last()

    def _end_last(self) -> None:
        over = max(self.now, self.ends[self.running[-1]])
        if self.moments[self.running[-1]]:
            self.pieces.append((self.running[-1], over, over))
        else:
            self._interrupt(over)
        self.running.pop()
        self.now = over

    def _interrupt(self, until: int) -> None:
        """The running activity ends, or pauses."""
        item = self.running[-1]
        if not self.moments[item] and (until > self.now or item not in self.shown):
            self.pieces.append((item, self.now, until))
            self.shown.add(item)
