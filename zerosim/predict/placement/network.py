"""The event graph as a network of moments: the dependencies of each, and its lag after them.

A moment happens `lag` after the last of its dependencies: an edge's source, and an offset. Only
offsets and lags take time, so changing them changes the run. Most nodes of the event graph are
several moments: a call or a copy begins, and ends on its rank; a message is sent, and its sender is
free again; the last rank of a native collective arrives, then its bytes arrive; a piece of a
computation begins, reaches a request, and ends.

With recorded durations every moment keeps its time, to the nanosecond: lags are the remainders. The
network is that of the critical path method (Kelley and Walker 1959).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zerosim.analysis.graph import EventGraph, NodeKind, Reason
from zerosim.analysis.graph.collectives import SYMMETRIC
from zerosim.analysis.graph.kinds import NODE_CODES, REASON_CODES
from zerosim.analysis.graph.table import NONE, Codes, Ints, Mask
from zerosim.predict.placement.message_edges import GraphMessages, Moments

_LEAST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Moments and their dependencies. Times are ns on the graph's clock.

    Attributes:
        graph: its nodes are the first moments, by number; its events are the first rows.
        base: by index in `trace.ranks`, the row of its first event; one more than ranks.
        time: by moment, its recorded time.
        lag: by moment, the time after its last incoming edge; 0 without edges.
        computes: by moment, the row of the computation of its lag; else `NONE`.
        source, target: by edge, moments.
        offset: by edge, the time from its source until it is ready.
        reason: by edge, a code of `Reason`; `NONE` for those that the graph lacks.
        begins: by edge, whether it determines the start of a wait or a receive, whose moment is its
            end.
        end: by row, the end of a computation, call or copy, or the time at which a message's sender
            is free; `NONE` for others.
        piece_end: by node, the end of a piece of a computation; `NONE` for others.
        over: by row of a native call, the end of the collective for all ranks; `NONE` for others
            and for calls that end without the others.
        parent: by row, that of the call of a message; `NONE` for others.
        meets: by row, whether a send only ends when it is received.
    """

    graph: EventGraph
    base: Ints
    time: Ints
    lag: Ints
    computes: Ints
    source: Ints
    target: Ints
    offset: Ints
    reason: Ints
    begins: Mask
    end: Ints
    piece_end: Ints
    over: Ints
    parent: Ints
    meets: Mask

    def rows(self, *kinds: NodeKind) -> Ints:
        """The events of some kinds, by row."""
        return np.flatnonzero(self.graph.is_kind(*kinds)[: self.base[-1]])

    def is_reason(self, *reasons: Reason) -> Mask:
        """By edge, whether it is one of the graph's with one of these reasons."""
        return np.isin(self.reason, [REASON_CODES[one] for one in reasons])

    def rows_of(self, nodes: Ints) -> Ints:
        """The events of nodes, by row."""
        return self.base[self.graph.place[nodes]] + self.graph.event[nodes]


def make_network(graph: EventGraph) -> Network:
    """Split a graph into moments; linear in its size after sorting."""
    return _NetworkMaker(graph).network()


class _NetworkMaker:
    """Numbers the moments, and collects the edges between them with their ready times."""

    def __init__(self, graph: EventGraph) -> None:
        self.graph = graph
        counts = [len(rank.events) for rank in graph.trace.ranks]
        self.base = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
        self.time = graph.at
        self.parts: list[tuple[Ints, Ints, Ints, Ints, Mask]] = []
        rows = graph.kind[: self.base[-1]]
        self.calls, self.copies, self.sends, self.receives = (
            np.flatnonzero(rows == NODE_CODES[kind])
            for kind in (NodeKind.CALL, NodeKind.COPY, NodeKind.SEND, NodeKind.RECEIVE)
        )
        self.parent = self._parents()
        self.end = np.full(len(rows), NONE, np.int64)
        for some in (self.calls, self.copies, self.sends):
            self.end[some] = self._append(graph.end[some])
        self.over = np.full(len(rows), NONE, np.int64)
        self.piece_end = np.full(graph.num_nodes, NONE, np.int64)

    def network(self) -> Network:
        graph = self.graph
        self._add_graph_edges()
        messages = GraphMessages(graph, self.parent)
        for edge in messages.edges():
            begins = np.full(len(edge.ready), edge.is_posting)
            self._add(
                self._moments(edge.before), self._moments(edge.after), edge.ready, None, begins
            )
        self._add_ends()
        self._add_to_orphans()
        source, target, ready, reason, begins = map(np.concatenate, zip(*self.parts, strict=True))
        source, target, ready = self._through_computations(source, target, ready)
        chains = len(source) - len(reason)
        reason = np.concatenate([reason, np.full(chains, NONE, np.int64)])
        begins = np.concatenate([begins, np.zeros(chains, np.bool_)])
        offset = ready - self.time[source]
        lag = self._lags(target, ready)
        # a rank that reaches a wait after its cause has ended is not woken: the other edge has that
        # time
        wakes = graph.is_kind(NodeKind.WAIT)[np.minimum(target, graph.num_nodes - 1)]
        wakes &= (target < graph.num_nodes) & ~begins & (ready + lag[target] == self.time[target])
        offset[wakes] += lag[target[wakes]]
        lag[target[wakes]] = 0
        return Network(
            graph=graph,
            base=self.base,
            time=self.time,
            lag=lag,
            computes=self.computes,
            source=source,
            target=target,
            offset=offset,
            reason=reason,
            begins=begins,
            end=self.end,
            piece_end=self.piece_end,
            over=self.over,
            parent=self.parent,
            meets=messages.meets,
        )

    def _append(self, times: Ints) -> Ints:
        """New moments, by number."""
        first = len(self.time)
        self.time = np.concatenate([self.time, times])
        return np.arange(first, len(self.time))

    def _add(
        self,
        source: Ints,
        target: Ints,
        ready: Ints,
        reason: Codes | None = None,
        begins: Mask | None = None,
    ) -> None:
        count = len(source)
        why = np.full(count, NONE, np.int64) if reason is None else reason.astype(np.int64)
        which = np.zeros(count, np.bool_) if begins is None else begins
        self.parts.append((source, target, ready, why, which))

    def _through_computations(
        self, source: Ints, target: Ints, ready: Ints
    ) -> tuple[Ints, Ints, Ints]:
        """Edges that leave a computation begin at the recorded point; its pieces become chains."""
        graph = self.graph
        pieces = np.flatnonzero(graph.is_kind(NodeKind.COMPUTE))
        lasts = np.zeros(len(self.time), np.int64)
        lasts[pieces] = graph.end[pieces] - graph.at[pieces]
        is_piece = np.zeros(len(self.time), np.bool_)
        is_piece[pieces] = True
        done = np.minimum(ready - self.time[source], lasts[source])
        leaves = np.flatnonzero(is_piece[source] & ((done > 0) | (lasts[source] == done)))
        span = int(lasts.max(initial=0)) + 1
        ends = pieces * span + lasts[pieces]
        keys, which = np.unique(
            np.concatenate([ends, source[leaves] * span + done[leaves]]), return_inverse=True
        )
        piece, reached = keys // span, keys % span
        chain = self._append(self.time[piece] + reached)
        before = np.concatenate([[NONE], chain[:-1]])[: len(chain)]
        first = np.concatenate([[True], piece[1:] != piece[:-1]])[: len(chain)]
        before = np.where(first, piece, before)
        self.piece_end[pieces] = chain[which[: len(pieces)]]
        source[leaves] = chain[which[len(pieces) :]]
        rows = self.base[graph.place[piece]] + graph.event[piece]
        self.computes = np.full(len(self.time), NONE, np.int64)
        self.computes[chain] = rows
        order = np.argsort(self.time[self.piece_end[pieces]], kind="stable")
        last = pieces[order]
        self.end[self.base[graph.place[last]] + graph.event[last]] = self.piece_end[last]
        return (
            np.concatenate([source, before]),
            np.concatenate([target, chain]),
            np.concatenate([ready, self.time[before]]),
        )

    def _lags(self, target: Ints, ready: Ints) -> Ints:
        """By moment, the remainder of its time after its last edge."""
        last = np.full(len(self.time), _LEAST)
        np.maximum.at(last, target, ready)
        return np.where(last == _LEAST, 0, self.time - last)

    def _moments(self, some: Moments) -> Ints:
        return np.where(some.is_end, self.end[some.row], some.row)

    def _is(self, *reasons: Reason) -> Mask:
        return np.isin(self.graph.reason, [REASON_CODES[one] for one in reasons])

    def _to_messages(self) -> Mask:
        return self.graph.is_kind(NodeKind.SEND, NodeKind.RECEIVE)[self.graph.target]

    def _parents(self) -> Ints:
        """The calls of messages: some messages follow their call, others the forwarded data."""
        graph = self.graph
        parent = np.full(self.base[-1], NONE, np.int64)
        first = self._is(Reason.FIRST_HOP) & self._to_messages()
        parent[graph.target[first]] = graph.source[first]
        parent[graph.hops.passed_on] = parent[graph.hops.received]
        return parent

    def _add_graph_edges(self) -> None:
        """The graph's own edges, from the end of their sources; those within a call are finer."""
        graph = self.graph
        within = self._is(Reason.LAST_HOP) | (self._is(Reason.FIRST_HOP) & self._to_messages())
        source, target = graph.source[~within], graph.target[~within]
        begins = self._is(Reason.ARRIVES, Reason.FIRST_HOP)[~within]
        matched = graph.is_kind(NodeKind.MATCH)[source]
        source[matched] = self._own_calls(source[matched], target[matched])
        ends = ~begins & (matched | graph.is_kind(NodeKind.CALL, NodeKind.COPY)[source])
        source[ends] = self.end[source[ends]]
        waits = graph.is_kind(NodeKind.WAIT)[target]
        begins = self._is(Reason.NEXT)[~within] & waits
        self._add(source, target, graph.ready[~within], graph.reason[~within], begins)

    def _own_calls(self, collectives: Ints, followers: Ints) -> Ints:
        """For matched collectives, the call of the successor's rank."""
        graph, count = self.graph, len(self.graph.trace.ranks)
        calls = self.calls[graph.collective[self.calls] != NONE]
        keys = graph.collective[calls] * count + graph.place[calls]
        order = np.argsort(keys)
        wanted = graph.collective[collectives] * count + graph.place[followers]
        own: Ints = calls[order[np.searchsorted(keys[order], wanted)]]
        return own

    def _add_ends(self) -> None:
        """The ends of calls and copies."""
        graph = self.graph
        self._add(self.copies, self.end[self.copies], graph.at[self.copies])
        self._add(self.calls, self.end[self.calls], graph.at[self.calls])
        for rows, done in ((self.sends, self.end[self.sends]), (self.receives, self.receives)):
            inside = self.parent[rows] != NONE
            calls = self.parent[rows[inside]]
            self._add(done[inside], self.end[calls], graph.end[rows[inside]])
        shows = np.zeros(self.base[-1], np.bool_)
        shows[self.parent[self.parent != NONE]] = True
        self._add_native(self.calls[~shows[self.calls] & (graph.collective[self.calls] != NONE)])

    def _add_native(self, calls: Ints) -> None:
        """Without messages, a collective is over some time after its last rank has arrived.

        A rank that ended before, as the root of a broadcast can, did not wait for it.
        """
        graph = self.graph
        matches = np.flatnonzero(graph.is_kind(NodeKind.MATCH))
        node_of = np.full(len(graph.matching.collectives), NONE, np.int64)
        node_of[graph.collective[matches]] = matches
        needs_all = np.array([one.op in SYMMETRIC for one in graph.matching.collectives], np.bool_)
        match = node_of[graph.collective[calls]]
        waited = (graph.end[calls] >= graph.at[match]) | needs_all[graph.collective[calls]]
        calls, match = calls[waited], match[waited]
        some, which = np.unique(match, return_inverse=True)
        latest = np.full(len(some), _LEAST)
        np.maximum.at(latest, which, graph.end[calls])
        over = self._append(latest)
        self.over[calls] = over[which]
        self._add(some, over, graph.at[some])
        self._add(self.over[calls], self.end[calls], graph.end[calls])

    def _add_to_orphans(self) -> None:
        """A moment without predecessors, unless it is a rank's first, follows the rank's previous
        one.
        """
        graph = self.graph
        has_edge = np.zeros(len(self.time), np.bool_)
        for part in self.parts:
            has_edge[part[1]] = True
        orphans = np.flatnonzero(~has_edge)
        orphans = orphans[orphans < graph.num_nodes]
        on_lane = np.flatnonzero(graph.is_kind(NodeKind.COMPUTE, NodeKind.WAIT, NodeKind.PHASE))
        zero = graph.at.min(initial=0)
        span = int(graph.at.max(initial=0) - zero) + 1
        keys = graph.place * span + (graph.at - zero)
        on_lane = on_lane[np.argsort(keys[on_lane], kind="stable")]
        before = np.searchsorted(keys[on_lane], keys[orphans]) - 1
        before, orphans = on_lane[before[before >= 0]], orphans[before >= 0]
        same = graph.place[before] == graph.place[orphans]
        self._add(before[same], orphans[same], graph.at[orphans[same]])
