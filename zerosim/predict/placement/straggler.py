"""The slowest rank, and the time of its work if it were as fast as the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from zerosim.analysis.graph import NodeKind
from zerosim.analysis.graph.table import NONE, Ints
from zerosim.predict.placement.costs import Tasks
from zerosim.predict.placement.network import Network
from zerosim.record import iterations

_OWN = (NodeKind.COMPUTE, NodeKind.PHASE, NodeKind.CALL)
"""Kinds of events between which a rank's own code runs."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """A rank, or none if there is only one.

    Attributes:
        rank: the rank; `NONE` if there is none.
        own_ns: its own computing and code time, and the median of the others', in all iterations
            but the first.
    """

    rank: int
    own_ns: tuple[int, int] = (0, 0)

    def lags(self, network: Network) -> Ints:
        """The lags by moment; for the straggler's own code, the median of the others."""
        graph = network.graph
        lag = network.lag.copy()
        nodes = np.flatnonzero(graph.is_kind(*_OWN))
        keys = zip(
            *(column[nodes].tolist() for column in (graph.kind, graph.iteration, graph.phase)),
            strict=True,
        )
        lag[nodes] = self._as_others(graph.rank[nodes], lag[nodes], keys)
        return lag

    def computations(self, tasks: Tasks) -> Ints:
        """Durations, ns; for the straggler's, the median of the others for the same work."""
        names = ("iteration", "micro_step", "phase", "unit")
        keys = zip(*(tasks.column(name) for name in names), strict=True)
        return self._as_others(tasks.rank, tasks.recorded, keys)

    def _as_others(self, ranks: Ints, times: Ints, keys: Iterable[Hashable]) -> Ints:
        """The n-th activity of a rank with a key corresponds to the n-th of other ranks."""
        seen: dict[tuple[int, Hashable], int] = defaultdict(int)
        others: dict[tuple[Hashable, int], list[int]] = defaultdict(list)
        own: list[tuple[int, tuple[Hashable, int]]] = []
        for place, (rank, key, time) in enumerate(
            zip(ranks.tolist(), keys, times.tolist(), strict=True)
        ):
            turn = seen[rank, key]
            seen[rank, key] += 1
            if rank == self.rank:
                own.append((place, (key, turn)))
            else:
                others[key, turn].append(time)
        changed = times.copy()
        for place, same in own:
            if same in others:
                changed[place] = np.median(others[same])
        return changed


def find_straggler(network: Network) -> Straggler:
    """The rank with the most own time, after the warm-up.

    The first of several iterations is excluded: loading and allocation happen there.
    """
    graph = network.graph
    ranks = [rank.rank for rank in graph.trace.ranks]
    if len(ranks) < 2:
        return Straggler(NONE)
    first = min(iterations(graph.trace), default=0)
    warm = graph.iteration > first
    if not warm.any():
        warm = graph.iteration == first
    own = np.zeros(len(ranks), np.int64)
    moments = np.flatnonzero(network.computes != NONE)
    moments = moments[warm[network.computes[moments]]]
    np.add.at(own, graph.place[network.computes[moments]], network.lag[moments])
    nodes = np.flatnonzero(graph.is_kind(NodeKind.COMPUTE, NodeKind.PHASE) & warm)
    np.add.at(own, graph.place[nodes], np.maximum(network.lag[nodes], 0))
    slowest = int(np.argmax(own))
    others = int(np.median(np.delete(own, slowest)))
    return Straggler(ranks[slowest], (int(own[slowest]), others))
