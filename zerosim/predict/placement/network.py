"""The event graph as a network of moments: what each one waits for, and how long after that it is.

A moment happens `lag` after the last of what it waits for: an edge's source, and an offset. Only
offsets and lags take time, so whoever changes them changes the run. Most nodes of the event graph
are several moments: a call or a copy begins, and is over on its rank; a message leaves, and its
sender is free again; the last rank of a native collective has arrived, and its bytes have; a piece
of a computation begins, reaches what asks for something, and ends.

As recorded every moment comes out where it was, to the nanosecond: lags are what is left. The
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
    """Moments and what they wait for. Times are ns on the graph's clock.

    Attributes:
        graph: its nodes are the first moments, by number, of which its events are the first rows.
        base: by position in `trace.ranks`, the row of its first event; one more than ranks.
        time: by moment, when it was.
        lag: by moment, how long after the last edge that leads to it; 0 where none does.
        computes: by moment, the row of the computation that its lag is a part of; else `NONE`.
        source, target: by edge, moments.
        offset: by edge, how long after its source it is ready.
        reason: by edge, a code of `Reason`; `NONE` of those that the graph does not have.
        begins: by edge, whether it says when a wait or a receive begins, whose moment is its end.
        end: by row, when a computation, call or copy is over, or a message's sender free; `NONE`
            for others.
        piece_end: by node, when a piece of a computation is over; `NONE` for others.
        over: by row of a native call, when the collective is over for all ranks; `NONE` for others
            and for calls that end without the others.
        parent: by row, that of the call that a message belongs to; `NONE` for others.
        meets: by row, whether a send is over only when it is received.
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
        """By edge, whether it is one of the graph's that has one of these reasons."""
        return np.isin(self.reason, [REASON_CODES[one] for one in reasons])

    def rows_of(self, nodes: Ints) -> Ints:
        """The events that nodes stand for, by row."""
        return self.base[self.graph.place[nodes]] + self.graph.event[nodes]


def make_network(graph: EventGraph) -> Network:
    """Take a graph apart into moments; linear in its size after sorting."""
    return _NetworkMaker(graph).network()


class _NetworkMaker:
    """Numbers the moments, and collects the edges between them with when they were ready."""

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
        # who comes to a wait when it is over is not woken: the time that takes is the other edge's
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
        """Edges that leave a computation begin where it was then; its pieces become chains."""
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
        """By moment, what is left of its time after the last of its edges."""
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
        """The calls of messages: some follow it by an edge, others what they pass on."""
        graph = self.graph
        parent = np.full(self.base[-1], NONE, np.int64)
        first = self._is(Reason.FIRST_HOP) & self._to_messages()
        parent[graph.target[first]] = graph.source[first]
        parent[graph.hops.passed_on] = parent[graph.hops.received]
        return parent

    def _add_graph_edges(self) -> None:
        """The graph's own, from where their sources are over; those within a call are finer."""
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
        """Of matched collectives, the call of the rank that what follows is on."""
        graph, count = self.graph, len(self.graph.trace.ranks)
        calls = self.calls[graph.collective[self.calls] != NONE]
        keys = graph.collective[calls] * count + graph.place[calls]
        order = np.argsort(keys)
        wanted = graph.collective[collectives] * count + graph.place[followers]
        own: Ints = calls[order[np.searchsorted(keys[order], wanted)]]
        return own

    def _add_ends(self) -> None:
        """When calls and copies are over."""
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

        A rank that was done before, as the root of a broadcast can be, did not wait for it.
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
        """What follows nothing, unless it is a rank's first, follows what the rank did before."""
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
