"""A trace with other times: every event, sample and row at its time in a placement.

A row without a moment in the network, such as a memory sample or a metric, keeps its relative
position between the surrounding activities of its rank's main thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zerosim.analysis.graph import NodeKind, Reason
from zerosim.analysis.graph.kinds import NODE_CODES
from zerosim.analysis.graph.table import NONE, Ints
from zerosim.predict.placement.durations import Durations
from zerosim.predict.placement.network import Network
from zerosim.record import RankTrace, Trace

_LEAST = np.iinfo(np.int64).min
"""Marks a missing time."""


def retimed(network: Network, found: Durations, time: Ints) -> Trace:
    """The trace of a network at other times.

    Args:
        time: by moment, ns on the graph's clock.
    """
    graph = network.graph
    times = _event_times(network, found, time)
    lanes = _lanes(network)
    ranks = []
    for place, rank in enumerate(graph.trace.ranks):
        rows = slice(int(network.base[place]), int(network.base[place + 1]))
        shift = graph.clocks.offset_ns(rank.rank)
        clock = _RetimedClock.of_rank(network, time, place, lanes[place])
        ranks.append(_rank(rank, [one[rows] - shift for one in times], clock))
    return replace(graph.trace, ranks=tuple(ranks))


def _event_times(network: Network, found: Durations, time: Ints) -> tuple[Ints, Ints, Ints]:
    """By row: issue, start and end, ns."""
    graph, count = network.graph, int(network.base[-1])
    kind = graph.kind[:count]
    start, end = time[:count].copy(), time[:count].copy()
    has_end = network.end != NONE
    end[has_end] = time[network.end[has_end]]
    marks = kind == NODE_CODES[NodeKind.MARK]
    end[marks] += (graph.end - graph.start)[:count][marks]
    computed = network.rows(NodeKind.COMPUTE)
    # the end keeps its distance from the last piece: another piece may have ended later
    later = _column(network, "end_ns")[computed] - network.time[network.end[computed]]
    end[computed] += np.maximum(later, 0)
    # the moment of a wait or a receive is its end: it begins when its rank reaches it
    late = np.isin(kind, [NODE_CODES[one] for one in (NodeKind.WAIT, NodeKind.RECEIVE)])
    start[late] -= (graph.end - graph.start)[:count][late]
    ready = time[network.source] + found.weight
    begins = network.begins & (network.target < count)
    rows = network.target[begins]
    # an activity that began while an earlier one continued is ready only when that one ends
    was_ready = (network.time[network.source] + network.offset)[begins]
    early = np.where(was_ready <= graph.end[rows], was_ready - graph.start[rows], 0)
    start[rows] = ready[begins] - early
    issue = start + _column(network, "issue_ns") - graph.start[:count]
    asks = network.is_reason(Reason.ASKED)
    issue[network.target[asks]] = ready[asks]
    start = np.minimum(start, end)
    return np.minimum(issue, start), start, end


def _column(network: Network, name: str) -> Ints:
    """By row, a recorded time, ns on the graph's clock; the minimum if missing."""
    graph, found = network.graph, []
    for rank in graph.trace.ranks:
        values = (_LEAST if value is None else value for value in rank.events.column(name))
        times = np.fromiter(values, np.int64, len(rank.events))
        found.append(times + (times != _LEAST) * graph.clocks.offset_ns(rank.rank))
    return np.concatenate(found)


def _lanes(network: Network) -> list[Ints]:
    """By index in `trace.ranks`, the nodes of its main thread."""
    graph = network.graph
    # a wait may move
    nodes = np.flatnonzero(graph.is_kind(NodeKind.COMPUTE, NodeKind.PHASE))
    nodes = nodes[np.argsort(graph.place[nodes], kind="stable")]
    cuts = np.searchsorted(graph.place[nodes], np.arange(1, len(graph.trace.ranks)))
    return np.split(nodes, cuts)


@dataclass(frozen=True, slots=True)
class _RetimedClock:
    """The mapping of a rank's times: those of its main thread, with interpolation in between."""

    before: Ints
    after: Ints

    @classmethod
    def of_rank(cls, network: Network, time: Ints, place: int, own: Ints) -> _RetimedClock:
        graph = network.graph
        shift = graph.clocks.offset_ns(graph.trace.ranks[place].rank)
        ends = network.piece_end[own]
        own = np.concatenate([own, ends[ends != NONE]])
        before, after = network.time[own] - shift, time[own] - shift
        before, first = np.unique(before, return_index=True)
        return cls(before, np.maximum.accumulate(after[first]))

    def shown(self, time_ns: int) -> int:
        """The mapped value of a recorded time."""
        if not len(self.before):
            return time_ns
        place = int(np.searchsorted(self.before, time_ns, side="right")) - 1
        place = max(place, 0)
        if time_ns < self.before[0] or place == len(self.before) - 1:
            return max(0, time_ns + int(self.after[place] - self.before[place]))
        low, high = int(self.before[place]), int(self.before[place + 1])
        begin, end = int(self.after[place]), int(self.after[place + 1])
        return begin + (time_ns - low) * (end - begin) // (high - low)


def _rank(rank: RankTrace, times: list[Ints], clock: _RetimedClock) -> RankTrace:
    issue, start, end = (one.tolist() for one in times)

    def shown(rows: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(replace(row, time_ns=clock.shown(row.time_ns)) for row in rows)

    return replace(
        rank,
        header=replace(rank.header, clock_ns=clock.shown(rank.header.clock_ns)),
        events=rank.events.retimed(issue, start, end),
        wire_samples=shown(rank.wire_samples),
        interfaces=shown(rank.interfaces),
        memory_samples=shown(rank.memory_samples),
        address_maps=shown(rank.address_maps),
        metrics=shown(rank.metrics),
        failure=None if rank.failure is None else shown([rank.failure])[0],
    )
