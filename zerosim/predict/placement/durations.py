"""A network with the times of a cost model: the value of every edge and every lag."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zerosim.analysis.graph import NodeKind
from zerosim.analysis.graph.table import NONE, Ints
from zerosim.predict.placement.costs import Costs, Tasks, whole_ns
from zerosim.predict.placement.network import Network
from zerosim.predict.placement.sharing import Needs, Sharing


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """All durations, ns.

    Attributes:
        weight: by edge, the time from its source's moment until it is ready.
        lag: by moment, the time from the last of its edges to it.
        sharing: the lags that take longer under contention; None if none do.
    """

    weight: Ints
    lag: Ints
    sharing: Sharing | None


def durations(network: Network, costs: Costs) -> Durations:
    """Query a cost model for all durations."""
    asked = _DurationFiller(network, costs)
    asked.computations()
    asked.messages()
    asked.copies()
    asked.collectives()
    return Durations(weight=asked.offset, lag=asked.lag, sharing=asked.sharing())


class _DurationFiller:
    """Fills in the values of a model."""

    def __init__(self, network: Network, costs: Costs) -> None:
        self.network, self.costs, self.graph = network, costs, network.graph
        self.lag = costs.lags(network).copy()
        self.offset = costs.offsets(network).copy()
        self._needs: list[tuple[Ints, list[Needs]]] = []

    def _tasks(self, kind: NodeKind, rows: Ints, recorded: Ints) -> Tasks:
        return Tasks(self.graph, kind, rows, recorded)

    def _share(self, moments: Ints, tasks: Tasks) -> None:
        needs = self.costs.needs(tasks)
        if needs is not None:
            self._needs.append((moments, needs))

    def sharing(self) -> Sharing | None:
        """The resources of each activity; for a collective, those of all of its calls."""
        if not self._needs:
            return None
        of: dict[int, Needs] = {}
        for moments, needs in self._needs:
            for moment, one in zip(moments.tolist(), needs, strict=True):
                before = of.get(moment, ())
                of[moment] = (*before, *one) if before else one
        known: dict[Needs, int] = {(): 0}
        among = np.zeros(len(self.lag), np.int64)
        for moment, needed in of.items():
            among[moment] = known.setdefault(tuple(dict.fromkeys(needed)), len(known))
        return Sharing(tuple(known), among)

    def computations(self) -> None:
        """Each piece of an interrupted computation keeps its fraction of the whole."""
        network = self.network
        moments = np.flatnonzero(network.computes != NONE)
        rows, which = np.unique(network.computes[moments], return_inverse=True)
        recorded = np.zeros(len(rows), np.int64)
        np.add.at(recorded, which, network.lag[moments])
        tasks = self._tasks(NodeKind.COMPUTE, rows, recorded)
        predicted = self.costs.computations(tasks)
        ratio = predicted / np.maximum(recorded, 1)
        self.lag[moments] = whole_ns(network.lag[moments] * ratio[which])
        # if the whole took no time, all of it goes to the last piece
        empty = recorded == 0
        self.lag[network.end[rows[empty]]] = predicted[empty]
        needs = self.costs.needs(tasks)
        if needs is not None:
            self._needs.append((moments, [needs[row] for row in which.tolist()]))

    def messages(self) -> None:
        """Time until a message is received, and until a sender that does not wait for its receiver
        is free.
        """
        network = self.network
        receives, sends = (network.rows(one) for one in (NodeKind.RECEIVE, NodeKind.SEND))
        tasks = self._tasks(NodeKind.RECEIVE, receives, network.lag[receives])
        self.lag[receives] = self.costs.messages(tasks)
        self._share(receives, tasks)
        sends = sends[~network.meets[sends]]
        ends = network.end[sends]
        free = self._tasks(NodeKind.SEND, sends, network.lag[ends])
        self.lag[ends] = self.costs.messages(free)

    def copies(self) -> None:
        """Copies: from start to end."""
        rows = self.network.rows(NodeKind.COPY)
        moments = self.network.end[rows]
        tasks = self._tasks(NodeKind.COPY, rows, self.network.lag[moments])
        self.lag[moments] = self.costs.copies(tasks)
        self._share(moments, tasks)

    def collectives(self) -> None:
        """Native calls: of those that end together, the last one determines the common end."""
        network, lag = self.network, self.lag
        calls = network.rows(NodeKind.CALL)
        shows = np.zeros(network.base[-1], np.bool_)
        shows[network.parent[network.parent != NONE]] = True
        calls = calls[~shows[calls]]
        over = network.over[calls]
        together = over != NONE
        begin = np.where(together, network.time[over] - network.lag[over], self.graph.at[calls])
        tasks = self._tasks(NodeKind.CALL, calls, self.graph.end[calls] - begin)
        predicted = self.costs.collectives(tasks)
        own = np.where(together, over, network.end[calls])
        self._share(own, tasks)
        lag[own] = np.iinfo(np.int64).min
        np.maximum.at(lag, own, predicted)
        sooner = np.zeros(len(network.time), np.int64)
        ends = network.end[calls[together]]
        sooner[ends] = predicted[together] - lag[over[together]]
        is_over = np.zeros(len(network.time), np.bool_)
        is_over[over[together]] = True
        edges = np.flatnonzero(is_over[network.source])
        self.offset[edges] = sooner[network.target[edges]]
