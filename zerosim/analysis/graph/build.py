"""From a trace to its event graph, in time linear in the number of events.

    a rank's main thread   phase -> compute -> wait -> compute ...
                                      |          ^
                                  asks|          |over
                                      v          |
    its collectives        call -> collective -> ... -> call      (the thread is free again)
                            |  ^                 ^
    other ranks             |  call of rank 1    |
                            v                    |
    messages               send -> receive ------+

    its copies             copy -> copy -> ...           (one thread for the bus, one for the disk)

The collective is one node over all ranks, from the last arrival on, so a wait for another rank is
in no node: it shows as the time between a rank's own arrival and the collective's start.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zerosim.analysis.graph.clocks import Clocks, align
from zerosim.analysis.graph.collectives import describe_collectives, place_calls
from zerosim.analysis.graph.hops import Hops, match_hops
from zerosim.analysis.graph.kinds import NODE_CODES, NodeKind, Reason
from zerosim.analysis.graph.lanes import main_lane
from zerosim.analysis.graph.lifetimes import Lifetimes
from zerosim.analysis.graph.model import EventGraph
from zerosim.analysis.graph.ondevice import on_device
from zerosim.analysis.graph.parts import Edges, Nodes
from zerosim.analysis.graph.phases import borders, late_updates
from zerosim.analysis.graph.table import LINKS, NONE, EventTable, Ints, Mask, make_table
from zerosim.base.errors import TraceError
from zerosim.record import Matching, RankTrace, Trace, match_collectives
from zerosim.record.bounds import LONGEST_NS, MOST_OF_A_COUNTER
from zerosim.record.collector import collector_paused

_YEAR_NS = 365 * 24 * 3600 * 10**9


def build_graph(trace: Trace, matching: Matching | None = None) -> EventGraph:
    """Build the graph of a whole trace, complete or not.

    Args:
        matching: of this trace, if it is known already.

    Raises:
        TraceError: it lasts longer than any run.
    """
    seen = on_device(trace)
    if matching is None or seen is not trace:
        trace = seen
        matching = match_collectives(trace)
    with collector_paused():
        return _build(trace, matching)


def _build(trace: Trace, matching: Matching) -> EventGraph:
    table = make_table(trace)
    calls, of_call = place_calls(trace, matching, table)
    of_row = np.full(len(table.id), NONE, np.int64)
    of_row[calls] = of_call
    hops = match_hops(table, of_row)
    clocks = align(trace, matching, table, hops)
    table = _shifted(trace, table, clocks)
    _require_span(trace, table)
    builder = _Builder(trace, table, clocks)
    builder.add_collectives(matching, calls, of_call)
    for place in range(len(trace.ranks)):
        builder.add_rank(place)
    builder.add_hops(hops)
    builder.add_lifetimes()
    by_node = builder.nodes.arrays()
    return EventGraph(
        trace=trace,
        matching=matching,
        clocks=clocks,
        hops=hops,
        **by_node,
        **builder.edges.arrays(by_node["at"]),
    )


def _shifted(trace: Trace, table: EventTable, clocks: Clocks) -> EventTable:
    """All times on the first host's clock."""
    if len(clocks.hosts) == 1:
        return table
    offsets = np.array([clocks.offset_ns(rank.rank) for rank in trace.ranks], np.int64)
    shift = offsets[table.place]
    return replace(
        table, issue=table.issue + shift, start=table.start + shift, end=table.end + shift
    )


def _require_span(trace: Trace, table: EventTable) -> None:
    """Sums of times over this graph cannot overflow."""
    span = int(table.end.max(initial=0)) - int(table.issue.min(initial=MOST_OF_A_COUNTER))
    if span > LONGEST_NS:
        raise TraceError(
            f"{trace.folder}: its events span {span / _YEAR_NS:,.0f} years: expected "
            f"at most {LONGEST_NS / _YEAR_NS:.0f}: record the run again"
        )


class _Builder:
    """Collects nodes and edges.

    Attributes:
        brings: by row of a call, the node that delivers its result to its rank.
        last_piece: by row of a computation, the node of its end.
        late: by row, whether it is an update of the previous iteration.
    """

    def __init__(self, trace: Trace, table: EventTable, clocks: Clocks) -> None:
        self.trace = trace
        self.table = table
        self.clocks = clocks
        self.nodes = Nodes()
        self.edges = Edges()
        self.brings: Ints = np.arange(len(table.id))
        self.last_piece: Ints = np.arange(len(table.id))
        self.late: Mask = np.zeros(len(table.id), np.bool_)
        for place, rank in enumerate(trace.ranks):
            self._find_late(place, rank)

    def _find_late(self, place: int, rank: RankTrace) -> None:
        """Updates on a thread of their own belong to the iteration that they are computed in."""
        base = int(self.table.base[place])
        rows = self.table.id[base : int(self.table.base[place + 1])]
        for event, iteration in late_updates(self.trace, rank).items():
            row = base + int(np.searchsorted(rows, event))
            self.late[row] = True
            self.table.iteration[row] = iteration

    def add_collectives(self, matching: Matching, calls: Ints, of_call: Ints) -> None:
        """The events, the collectives, and the arrivals at them."""
        table = self.table
        collectives = describe_collectives(matching, table, calls, of_call)
        self.nodes.add_events(table, collectives)
        first = self.nodes.add_collectives(table, collectives)
        self.edges.add(calls, first + of_call, Reason.ARRIVES, table.start[calls])
        # a rank that ended before the last arrival, as the root of a broadcast can, did not need
        # it: there the call itself delivers the result
        waited = table.end[calls] >= collectives.arrival[of_call]
        waited |= collectives.needs_all[of_call]
        self.brings[calls[waited]] = first + of_call[waited]

    def add_rank(self, place: int) -> None:
        """One rank's main thread, its requests, and its collectives in order."""
        table, rank = self.table, self.trace.ranks[place]
        low, high = int(table.base[place]), int(table.base[place + 1])
        kind = table.kind[low:high]
        is_wait = kind == NODE_CODES[NodeKind.WAIT]
        is_late = self.late[low:high]
        computes = (kind == NODE_CODES[NodeKind.COMPUTE]) & ~is_late
        on_lane = np.flatnonzero(is_wait | computes) + low
        is_wait = is_wait[on_lane - low]
        marks = borders(rank, self.clocks.offset_ns(rank.rank))
        first_mark = self.nodes.add_borders(place, rank.rank, marks)
        times = np.array([mark.time_ns for mark in marks], np.int64)
        is_moment = np.concatenate([np.ones(len(marks), np.bool_), is_wait])
        since = np.concatenate([times, table.start[on_lane]])
        lane = main_lane(since, np.concatenate([times, table.end[on_lane]]), is_moment)
        items = np.concatenate([np.arange(len(marks)) + first_mark, on_lane])[lane.item]
        moments = is_moment[lane.item]
        pieces = self.nodes.add_pieces(items, lane.start, lane.end, moments)
        of_event = items < len(table.id)
        self.last_piece[items[of_event]] = pieces[of_event]
        # the program reaches a wait at its start
        before, waits = lane.end[:-1], (moments & of_event)[1:]
        ready = np.where(waits, np.maximum(before, since[lane.item[1:]]), before)
        self.edges.add(pieces[:-1], pieces[1:], Reason.NEXT, ready)
        calls = np.flatnonzero(kind == NODE_CODES[NodeKind.CALL]) + low
        self._add_askers(calls, pieces, lane.start, ~moments)
        self._add_thread(calls, Reason.THREAD)
        beside = np.flatnonzero(is_late) + low
        self._add_askers(beside, pieces, lane.start, ~moments)
        self._add_thread(beside, Reason.UPDATER)
        copies = np.flatnonzero(kind == NODE_CODES[NodeKind.COPY]) + low
        self._add_askers(copies, pieces, lane.start, ~moments)
        for link in range(len(LINKS)):
            self._add_thread(copies[table.link[copies] == link], Reason.COPIER)
        self._add_waits(on_lane[is_wait])

    def _add_askers(self, calls: Ints, pieces: Ints, begin: Ints, lasts: Mask) -> None:
        """The issuer of a call or copy: the main thread's activity at that time, or the last one
        before.
        """
        if not len(pieces):
            return
        issue = self.table.issue[calls]
        asker = np.searchsorted(begin, issue, side="right") - 1
        # a computation that begins at that moment is not the issuer
        while np.any(too_late := (asker >= 0) & lasts[asker] & (begin[asker] == issue)):
            asker[too_late] -= 1
        asked = asker >= 0
        self.edges.add(pieces[asker[asked]], calls[asked], Reason.ASKED, issue[asked])

    def _add_thread(self, calls: Ints, reason: Reason) -> None:
        """Consecutive calls or copies, if the previous one ended before the next began."""
        table = self.table
        order = calls[np.lexsort((calls, table.start[calls]))]
        before, after = order[:-1], order[1:]
        over = table.ended[before] & (table.end[before] <= table.start[after])
        self._add_followers(before[over], after[over], reason)

    def _add_waits(self, waits: Ints) -> None:
        """A wait ends when its cause ends on its rank."""
        parent = self.table.parent[waits]
        awaited = np.isin(
            self.table.kind[parent], [NODE_CODES[NodeKind.CALL], NODE_CODES[NodeKind.COPY]]
        )
        awaited &= parent != NONE
        self._add_followers(parent[awaited], waits[awaited], Reason.OVER)

    def _add_followers(self, calls: Ints, followers: Ints, reason: Reason) -> None:
        self.edges.add(self.brings[calls], followers, reason, self.table.end[calls])
        self.edges.follow(calls, followers)

    def add_hops(self, hops: Hops) -> None:
        """Messages, the sends that forward them, and the successors of each call's last message."""
        table, edges = self.table, self.edges
        edges.add(hops.sends, hops.receives, Reason.MESSAGE, table.start[hops.sends])
        edges.add(hops.received, hops.passed_on, Reason.PASSED_ON, table.end[hops.received])
        first = np.concatenate([hops.first, table.rows(NodeKind.MARK)])
        first = first[table.parent[first] != NONE]
        edges.add(table.parent[first], first, Reason.FIRST_HOP, table.start[first])
        messages = np.concatenate([table.rows(NodeKind.SEND), table.rows(NodeKind.RECEIVE)])
        messages = messages[table.parent[messages] != NONE]
        order = messages[np.lexsort((messages, table.end[messages], table.parent[messages]))]
        last = np.full(len(table.id), NONE, np.int64)
        last[table.parent[order]] = order  # of equal parents, the last one remains
        calls, followers = edges.followers()
        final = last[calls]
        known = final != NONE
        edges.add(final[known], followers[known], Reason.LAST_HOP, table.end[final[known]])

    def add_lifetimes(self) -> None:
        """The data flow of tensors, by their labels."""
        finder = Lifetimes(self.trace.manifest)
        for place, rank in enumerate(self.trace.ranks):
            base, shift = int(self.table.base[place]), self.clocks.offset_ns(rank.rank)
            by_reason: dict[Reason, list[tuple[int, int, int]]] = {}
            for life in finder.follow(rank.events):
                by_reason.setdefault(life.reason, []).append(
                    (life.source + base, life.target + base, life.ready_ns + shift)
                )
            for reason, ways in by_reason.items():
                source, target, ready = np.array(ways, np.int64).T
                is_call = self.table.kind[source] == NODE_CODES[NodeKind.CALL]
                makers = np.where(is_call, self.brings[source], self.last_piece[source])
                self.edges.add(makers, target, reason, ready)
