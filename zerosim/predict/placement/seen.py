"""All durations in recorded runs, as points to which constants are fitted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from zerosim.analysis.graph import EventGraph, NodeKind
from zerosim.analysis.graph.table import Ints, Mask
from zerosim.base.tiers import Link, link_of_copy
from zerosim.predict.placement.collective_steps import steps
from zerosim.predict.placement.costs import Recorded, Tasks
from zerosim.predict.placement.modelled import Work, computes_wide
from zerosim.predict.placement.network import Network
from zerosim.predict.placement.owncode import OwnCode
from zerosim.schema.events import Op

Points = list[tuple[float, float]]
"""Sizes and times, ns."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A computation: the work of its operators, and its duration.

    Attributes:
        is_wide: whether its elements have 32 bits.
    """

    flops: int
    moved_bytes: int
    operators: int
    is_wide: bool
    time_ns: int


class CostSurvey(Recorded):
    """Observes all durations in typical iterations of a run, without changes.

    Attributes:
        work: the work of the observed run's computations.
        program, handover, wake, post: times of own code, ns, as in `Machine`.
    """

    work: Work

    def __init__(self) -> None:
        """Start without observations."""
        self.computed: list[Computed] = []
        self.transfers: Points = []
        self.steps: Points = []
        self.copied: dict[Link, Points] = defaultdict(list)
        self.asked: Points = []
        self.program: list[int] = []
        self.handover: list[int] = []
        self.wake: list[int] = []
        self.post: list[int] = []

    def computations(self, tasks: Tasks) -> Ints:
        """The work of the computations' operators, by the limiting resource of each."""
        is_wide = computes_wide(tasks.graph.trace)
        columns = self.work(tasks), tasks.recorded.tolist(), _typical(tasks).tolist()
        for operations, time, is_typical in zip(*columns, strict=True):
            flops = sum(one.calls * one.flops for one in operations)
            moved = sum(one.calls * one.touched_bytes for one in operations if not one.flops)
            if is_typical and time > 0 and (flops or moved):
                count = sum(one.calls for one in operations)
                self.computed.append(Computed(flops, moved, count, is_wide, time))
        return tasks.recorded

    def collectives(self, tasks: Tasks) -> Ints:
        """Each collective as one of its steps: the step's bytes, and its part of the time."""
        names = ("op", "algorithm", "payload_bytes")
        columns = [*(tasks.column(name) for name in names), tasks.groups(), tasks.recorded.tolist()]
        for op, algorithm, payload, ranks, time, is_typical in zip(
            *columns, _typical(tasks).tolist(), strict=True
        ):
            if len(ranks) < 2 or op in (Op.UNKNOWN, Op.SEND, Op.RECEIVE) or time <= 0:
                continue
            if is_typical:
                taken = steps(op, algorithm, len(ranks))
                moved = taken.payloads * payload / taken.messages
                self.steps.append((moved, time / taken.messages))
        return tasks.recorded

    def messages(self, tasks: Tasks) -> Ints:
        """Messages, from the time at which both ends were ready."""
        if tasks.kind is NodeKind.RECEIVE:
            sizes = np.array(tasks.column("payload_bytes"), np.int64)
            typical = _typical(tasks)
            self.transfers += zip(
                sizes[typical].tolist(), tasks.recorded[typical].tolist(), strict=True
            )
        return tasks.recorded

    def copies(self, tasks: Tasks) -> Ints:
        """Transfers by link."""
        names = ("origin", "target", "payload_bytes")
        columns = [*(tasks.column(name) for name in names), tasks.recorded.tolist()]
        for origin, target, size, time, is_typical in zip(
            *columns, _typical(tasks).tolist(), strict=True
        ):
            if is_typical:
                self.copied[link_of_copy(origin, target)].append((size, time))
        return tasks.recorded

    def lags(self, network: Network) -> Ints:
        """Own code before events, and the time until a thread starts a request."""
        own, graph = OwnCode.of(network), network.graph
        made = own.made()
        asking = made[_is_typical(graph, network.target[own.asks])]
        sizes = own.asked_bytes[_is_typical(graph, network.target[own.asks])]
        self.asked += zip(sizes.tolist(), np.maximum(asking, 0).tolist(), strict=True)
        left = network.lag[network.target[own.onwards]] - own.spent(made.astype(np.float64))
        inside = own.within_iterations()
        inside &= _is_typical(graph, network.target[own.onwards])
        self.program += np.maximum(left[inside], 0).astype(np.int64).tolist()
        taken = own.taken_up[_is_typical(graph, own.taken_up)]
        self.handover += network.lag[taken].tolist()
        return network.lag

    def offsets(self, network: Network) -> Ints:
        """The time until a thread is woken, and until a message is posted."""
        own, graph = OwnCode.of(network), network.graph
        for edges, times in ((own.wakes, self.wake), (own.posts, self.post)):
            offset = network.offset[edges[_is_typical(graph, network.target[edges])]]
            times.extend(offset[offset > 0].tolist())
        return network.offset


def _typical(tasks: Tasks) -> Mask:
    return _is_typical(tasks.graph, tasks.rows)


def _is_typical(graph: EventGraph, nodes: Ints) -> Mask:
    """Whether they are of a typical iteration."""
    typical: Mask = np.isin(graph.iteration[nodes], typical_iterations(graph))
    return typical


def typical_iterations(graph: EventGraph) -> Ints:
    """The iterations that a prediction is for.

    A step is a sum, so constants are means; but the prediction is for a typical iteration. The
    means are therefore taken over the middle half of the iterations by duration, without those with
    a rare delay, and without the first, in which much is loaded and allocated.
    """
    known = np.unique(graph.iteration[graph.iteration >= 0])
    warm = known[1:] if len(known) > 1 else known
    took = np.array([np.ptp(_times_of(graph, one)) for one in warm])
    order = warm[np.argsort(took, kind="stable")]
    out = len(order) // 4
    typical: Ints = order[out : len(order) - out]
    return typical


def _times_of(graph: EventGraph, iteration: int) -> Ints:
    """Start and end of an iteration's events."""
    among = graph.iteration == iteration
    return np.concatenate([graph.start[among], graph.end[among]])
