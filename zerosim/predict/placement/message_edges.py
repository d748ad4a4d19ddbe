"""The dependencies of a call's messages, on their rank and on the other side.

A rank processes a call one message after another: it posts a receive or sends when its previous
action has ended. A receive ends some time after the message was sent and the receive was posted. A
sender is free when the receiver has the message, unless it was complete before the request, as for
data in a socket's buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from zerosim.analysis.graph import EventGraph, NodeKind
from zerosim.analysis.graph.table import NONE, Ints, Mask


@dataclass(frozen=True, slots=True)
class Moments:
    """Rows, and for each whether it stands for the row's separate end moment."""

    row: Ints
    is_end: Mask

    @classmethod
    def begins(cls, rows: Ints) -> Moments:
        """The start moments of these rows; for a receive, its end."""
        return cls(rows, np.zeros(len(rows), np.bool_))

    @classmethod
    def ends(cls, rows: Ints) -> Moments:
        """The end moments of these rows."""
        return cls(rows, np.ones(len(rows), np.bool_))


@dataclass(frozen=True, slots=True)
class MessageEdges:
    """Predecessor and successor, and the time of readiness, ns.

    Attributes:
        is_posting: whether the successor is posted then.
    """

    before: Moments
    after: Moments
    ready: Ints
    is_posting: bool = False


class GraphMessages:
    """The messages of a graph.

    Attributes:
        meets: by row, for a send, whether its end waits for the receiver.
    """

    def __init__(self, graph: EventGraph, parent: Ints) -> None:
        """Take the messages that belong to a call; `parent` is its row, by row."""
        self._graph = graph
        self._parent = parent
        inside = parent != NONE
        kind = graph.is_kind(NodeKind.SEND)[: len(parent)]
        self._sends = np.flatnonzero(inside & kind)
        self._receives = np.flatnonzero(inside & ~kind)
        sends, receives = graph.hops.sends, graph.hops.receives
        meet = graph.end[sends] >= graph.start[receives]
        self._met = sends[meet], receives[meet]
        self.meets = np.zeros(len(parent), np.bool_)
        self.meets[self._met[0]] = True

    def edges(self) -> Iterator[MessageEdges]:
        """The edges that the graph lacks: from a send to its receive and its end, between posts."""
        start, end = self._graph.start, self._graph.end
        met, receives = self._met
        ready = np.minimum(end[met], end[receives])
        yield MessageEdges(Moments.begins(receives), Moments.ends(met), ready)
        yield self._own_receives()
        posted = np.concatenate([self._sends, self._receives])
        yield self._posted_after(posted)
        yield MessageEdges(
            Moments.begins(self._sends), Moments.ends(self._sends), start[self._sends]
        )

    def _own_receives(self) -> MessageEdges:
        """A sender that handles its own receive observes the end of its send later."""
        graph, parent = self._graph, self._parent
        found = _latest(
            (parent[self._sends], graph.end[self._sends]),
            (parent[self._receives], graph.end[self._receives]),
            np.zeros(len(self._receives), np.int8),
        )
        place = np.flatnonzero(found != NONE)
        sends, receives = self._sends[place], self._receives[found[place]]
        kept = graph.start[receives] < graph.end[sends]
        sends, receives = sends[kept], receives[kept]
        return MessageEdges(Moments.begins(receives), Moments.ends(sends), graph.end[receives])

    def _posted_after(self, posted: Ints) -> MessageEdges:
        """Messages follow the last end or start on their rank within their call."""
        graph, parent = self._graph, self._parent
        calls = np.unique(parent[posted])
        over = np.concatenate([self._sends, self._receives])
        rows = np.concatenate([over, calls, self._sends])
        is_end = np.arange(len(rows)) < len(self._sends)
        times = np.concatenate([graph.end[over], graph.start[calls], graph.start[self._sends]])
        above = np.concatenate([parent[over], calls, parent[self._sends]])
        # no event follows itself: an event without duration only precedes later ones
        late = np.ones(len(rows), np.bool_)
        late[: len(over)] = graph.end[over] == graph.start[over]
        late[len(over) : len(over) + len(calls)] = False
        found = _latest((parent[posted], graph.start[posted]), (above, times), late * np.int8(2))
        known = found != NONE
        before = Moments(rows[found[known]], is_end[found[known]])
        after = Moments.begins(posted[known])
        return MessageEdges(before, after, graph.start[posted[known]], is_posting=True)


def _latest(wanted: tuple[Ints, Ints], known: tuple[Ints, Ints], turn: np.ndarray) -> Ints:
    """For each requested (call, time), the last known one that is not later; or `NONE`.

    Args:
        turn: of the known ones; 2 if a known one at exactly that time is too late.
    """
    count = len(wanted[0])
    call, time = (np.concatenate(pair) for pair in zip(wanted, known, strict=True))
    turns = np.concatenate([np.ones(count, np.int8), turn])
    order = np.lexsort((turns, time, call))
    last = np.maximum.accumulate(np.where(order >= count, np.arange(len(order)), NONE))
    found = np.full(count, NONE, np.int64)
    asks = np.flatnonzero((order < count) & (last != NONE))
    candidate = order[last[asks]]
    same = call[candidate] == call[order[asks]]
    found[order[asks[same]]] = candidate[same] - count
    return found
