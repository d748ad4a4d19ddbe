"""The same events in another schedule: one after another, or overlapped."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from zerosim.analysis.graph import NodeKind, Reason
from zerosim.analysis.graph.table import NONE, Ints, Mask
from zerosim.predict.placement.network import Network
from zerosim.schema.events import Op

_READS = (
    *(Reason.GATHERED, Reason.REDUCED, Reason.FETCHED, Reason.FETCHED_ALONE, Reason.OFFLOADED),
    *(Reason.STATES, Reason.RETURNED, Reason.RETURNED_IN_PLACE, Reason.CHECKPOINT_BACK),
    *(Reason.UPDATED, Reason.MOVED_ON, Reason.REDUCED_LEAVES),
)
"""Reasons of edges to a user of communicated or copied data."""


def serial(network: Network) -> Network:
    """The issuer of a collective or a copy continues at its end."""
    asks = np.flatnonzero(network.is_reason(Reason.ASKED))
    asks = asks[_can_block(network)[network.target[asks]]]
    of_source: dict[int, list[int]] = defaultdict(list)
    for edge in _of_program(network).tolist():
        of_source[int(network.source[edge])].append(edge)
    source, target, offset = [], [], []
    for ask in asks.tolist():
        for edge in of_source[int(network.source[ask])]:
            later = int(network.offset[edge] - network.offset[ask])
            is_next = later > 0 or (later == 0 and (network.reason[edge] != network.reason[ask]))
            if is_next:
                source.append(int(network.end[network.target[ask]]))
                target.append(int(network.target[edge]))
                offset.append(later)
    return _with(network, source, target, offset)


def _can_block(network: Network) -> Mask:
    """By moment, whether it may block: collectives and copies; messages need the other rank."""
    graph = network.graph
    messages = [one.op in (Op.SEND, Op.RECEIVE) for one in graph.matching.collectives]
    is_message = np.array([*messages, False])[graph.collective]
    can = np.zeros(len(network.time), np.bool_)
    can[: graph.num_nodes] = graph.is_kind(NodeKind.CALL, NodeKind.COPY) & ~is_message
    return can


def overlapped(network: Network) -> Network:
    """Waits move to just before the first use of the result; units are prefetched by one."""
    source, offset = network.source.copy(), network.offset.copy()
    is_gather = np.zeros(len(network.time), np.bool_)
    is_gather[network.source[network.is_reason(Reason.GATHERED)]] = True
    asks = np.flatnonzero(network.is_reason(Reason.ASKED))
    asks = asks[is_gather[network.end[network.target[asks]]]]
    source[asks] = _a_unit_before(network, asks)
    offset[asks] = 0
    return _Lanes(replace(network, source=source, offset=offset)).with_late_waits()


class _Lanes:
    """The main threads of all ranks: an edge from each activity to the next one."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.source, self.offset = network.source.copy(), network.offset.copy()
        edges = np.flatnonzero(network.is_reason(Reason.NEXT))
        self._edge_to = dict(zip(network.target[edges].tolist(), edges.tolist(), strict=True))
        self._edge_from = dict(zip(network.source[edges].tolist(), edges.tolist(), strict=True))
        self._asks: dict[int, list[int]] = defaultdict(list)
        for edge in np.flatnonzero(network.is_reason(Reason.ASKED)).tolist():
            self._asks[int(network.source[edge])].append(edge)

    def with_late_waits(self) -> Network:
        """Move each wait right before the first use of its result on its rank.

        A result needed in the next iteration is awaited at the end of its own: otherwise an
        iteration would include delays of the previous one.
        """
        network = self._network
        iteration = network.graph.iteration
        users = self._users()
        overs = np.flatnonzero(network.is_reason(Reason.OVER))
        for edge in overs[np.argsort(network.time[network.target[overs]], kind="stable")].tolist():
            user = users.get(int(network.source[edge]))
            wait = int(network.target[edge])
            if user is None or iteration[user] != iteration[wait]:
                continue
            if network.time[user] >= network.time[wait]:
                self._move(wait, user)
        return replace(network, source=self.source, offset=self.offset)

    def _users(self) -> dict[int, int]:
        """By the end of a collective or copy, the first computation that reads its result."""
        network = self._network
        reads = np.flatnonzero(network.is_reason(*_READS))
        found: dict[int, int] = {}
        for edge in reads[np.argsort(-network.time[network.target[reads]], kind="stable")].tolist():
            if int(network.target[edge]) in self._edge_to:
                found[int(network.source[edge])] = int(network.target[edge])
        return found

    def _move(self, wait: int, user: int) -> None:
        """Remove a wait from its thread, and insert it before another node."""
        into, out, before = (
            self._edge_to.get(wait), self._edge_from.get(wait), self._edge_to[user],
        )  # fmt: skip
        if into is None or out is None or out == before:
            return
        came_from = int(self.source[into])
        self._lead(out, came_from, int(self.offset[into] + self.offset[out]))
        for ask in self._asks.pop(wait, ()):
            self.source[ask] = came_from
            self.offset[ask] += self.offset[into]
            self._asks[came_from].append(ask)
        self._lead(into, int(self.source[before]), int(self.offset[before]))
        self._lead(before, wait, 0)

    def _lead(self, edge: int, source: int, offset: int) -> None:
        self.source[edge], self.offset[edge] = source, offset
        self._edge_from[source] = edge


def _of_program(network: Network) -> Ints:
    """Edges along a rank's main thread, and its requests."""
    along = network.is_reason(Reason.NEXT, Reason.ASKED)
    inner = network.computes[np.minimum(network.target, len(network.computes) - 1)] != NONE
    return np.flatnonzero(along | inner)


def _a_unit_before(network: Network, asks: Ints) -> Ints:
    """The start of the unit that the program computed before the request."""
    graph = network.graph
    pieces = np.flatnonzero(graph.is_kind(NodeKind.COMPUTE))
    zero, span = int(network.time.min()), int(np.ptp(network.time)) + 1
    keys = graph.place[pieces] * span + network.time[pieces] - zero
    order = np.argsort(keys, kind="stable")
    calls = network.target[asks]
    issued = network.time[network.source[asks]] + network.offset[asks]
    wanted = graph.place[calls] * span + issued - zero
    before = np.searchsorted(keys[order], wanted, side="left") - 1
    found = pieces[order[np.maximum(before, 0)]]
    same = (before >= 0) & (graph.place[found] == graph.place[calls])
    same &= graph.iteration[found] == graph.iteration[calls]
    return np.where(same, found, network.source[asks])


def _with(network: Network, source: list[int], target: list[int], offset: list[int]) -> Network:
    """A network with more edges."""
    count = len(source)
    return replace(
        network,
        source=np.concatenate([network.source, np.array(source, np.int64)]),
        target=np.concatenate([network.target, np.array(target, np.int64)]),
        offset=np.concatenate([network.offset, np.array(offset, np.int64)]),
        reason=np.concatenate([network.reason, np.full(count, NONE, np.int64)]),
        begins=np.concatenate([network.begins, np.zeros(count, np.bool_)]),
    )
