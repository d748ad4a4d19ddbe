"""The time of every moment of a network: the longest path to it, without contention.

Contention makes activities on shared resources longer, so these are processed in order of time:
everything that can begin without waiting for any of them has begun before the next one ends.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from zerosim.analysis.graph.table import Ints
from zerosim.base.errors import ConfigError, TraceError
from zerosim.predict.placement.durations import Durations
from zerosim.predict.placement.network import Network
from zerosim.predict.placement.sharing import Underway
from zerosim.record.bounds import LONGEST_NS


def solve(network: Network, found: Durations) -> Ints:
    """Times of all moments, ns; linear in the number of edges without shared resources.

    Raises:
        TraceError: moments wait for each other in a cycle.
        ConfigError: the predicted times exceed the limit for a run.
    """
    solver = _Solver(network, found)
    solver.run()
    if solver.left:
        raise TraceError(
            f"{network.graph.trace.folder}: {solver.left:,} events would wait for each other in a "
            "cycle, so they have no times: leave overlap or serial as it is, or see zerosim graph"
        )
    if max(solver.time, default=0) - min(network.time.tolist(), default=0) > LONGEST_NS:
        raise ConfigError("with these changes, the run would take years: expected smaller factors")
    return np.array(solver.time, np.int64)


class _Solver:
    """Visits moment after moment (Kahn 1962).

    Attributes:
        time: by moment, its time; before that is known, the latest ready time of its known edges.
        left: number of moments without a time.
    """

    def __init__(self, network: Network, found: Durations) -> None:
        count = len(network.time)
        order = np.argsort(network.source, kind="stable")
        self._target = network.target[order].tolist()
        self._after = found.weight[order].tolist()
        begin = np.searchsorted(network.source[order], np.arange(count + 1))
        self._begin = begin.tolist()
        missing = np.bincount(network.target, minlength=count)
        self._missing = missing.tolist()
        self._lag = found.lag.tolist()
        self.time = np.where(missing == 0, network.time, np.iinfo(np.int64).min).tolist()
        self._sharing = found.sharing
        self._needs = None if found.sharing is None else found.sharing.of.tolist()
        self._ready = np.flatnonzero(missing == 0).tolist()
        self._waiting: list[tuple[int, int]] = []
        self.left = count

    def run(self) -> None:
        """Run until no moment is left that can happen."""
        underway = Underway()
        self._go_on()
        while self._waiting or underway.next_end() is not None:
            end = underway.next_end()
            if self._waiting and (end is None or self._waiting[0][0] <= end):
                now, moment = heappop(self._waiting)
                assert self._sharing is not None, "an event waits for a share"
                needs = self._sharing.needs[self._sharing.of[moment]]
                underway.begin(moment, now, self._lag[moment], needs)
                continue
            moment, over = underway.finish()
            self._happen(moment, round(over))
            self._go_on()

    def _go_on(self) -> None:
        """Process all moments that follow without using a shared resource."""
        while self._ready:
            moment = self._ready.pop()
            if self._needs is not None and self._needs[moment]:
                heappush(self._waiting, (self.time[moment], moment))
            else:
                self._happen(moment, self.time[moment] + self._lag[moment])

    def _happen(self, moment: int, now: int) -> None:
        """A moment has its time; moments with no other open edge are ready."""
        time, target, after, missing = self.time, self._target, self._after, self._missing
        time[moment] = now
        self.left -= 1
        for edge in range(self._begin[moment], self._begin[moment + 1]):
            follower = target[edge]
            time[follower] = max(time[follower], now + after[edge])
            missing[follower] -= 1
            if not missing[follower]:
                self._ready.append(follower)
