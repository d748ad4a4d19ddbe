"""The critical path over all ranks, its time by cause, and the slack of every event.

The path follows the last-ready predecessor from the last event back to the beginning: the time in
between is the path's, and no event on it could end later without delaying the end of the iteration.
A rank's wait for another is never on the path: the path is then on the other rank. The slack of an
event is how much later it could have ended with the end unchanged and all other durations the same
(Kelley and Walker 1959).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from zerosim.analysis.graph import EventGraph, NodeKind, Reason
from zerosim.analysis.graph.kinds import NODE_CODES, REASON_CODES
from zerosim.analysis.graph.order import positions
from zerosim.analysis.graph.table import NONE, Ints
from zerosim.base.errors import TraceError
from zerosim.record.collector import collector_paused


class TimeCause(StrEnum):
    """The causes of time on a path."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    """In a collective, after all of its ranks have arrived."""
    SCHEDULING = "scheduling"
    """Hand-over between threads: until a thread started a request, or continued with its result."""
    OTHER = "other"
    """The program's own code between recorded events."""
    COPYING = "copying"
    """Between the tiers of a rank: device, host, disk."""


@dataclass(frozen=True, slots=True)
class PathPiece:
    """A piece of a path.

    Attributes:
        node: the node that it passes through, or leads to.
        rank: the rank of this time; for a collective, the rank that arrived last.
    """

    node: int
    rank: int
    cause: TimeCause
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """Its duration."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The path from the beginning to the end, without gaps.

    Attributes:
        nodes: in order of time.
        pieces: in order of time, without empty ones.
    """

    start_ns: int
    end_ns: int
    nodes: tuple[int, ...]
    pieces: tuple[PathPiece, ...]

    @property
    def duration_ns(self) -> int:
        """From start to end; the sum of all pieces."""
        return self.end_ns - self.start_ns

    def by_cause(self) -> dict[TimeCause, int]:
        """Time by cause, ns; the sum is the duration. Copying only if there was any."""
        total: Counter[TimeCause] = Counter()
        for piece in self.pieces:
            total[piece.cause] += piece.duration_ns
        return {c: total[c] for c in TimeCause if c is not TimeCause.COPYING or total[c]}

    def by_rank(self) -> dict[int, int]:
        """Time on each rank outside of collectives, ns."""
        total: Counter[int] = Counter()
        for piece in self.pieces:
            total[piece.rank] += (piece.cause is not TimeCause.COMMUNICATION) * piece.duration_ns
        return dict(sorted(total.items()))


_LAG_ON_THE_PROGRAM = (NodeKind.COMPUTE, NodeKind.PHASE)
_CAUSE_OF: Mapping[NodeKind, TimeCause] = {
    NodeKind.COMPUTE: TimeCause.COMPUTE,
    NodeKind.MATCH: TimeCause.COMMUNICATION,
    NodeKind.CALL: TimeCause.COMMUNICATION,
    NodeKind.SEND: TimeCause.COMMUNICATION,
    NodeKind.RECEIVE: TimeCause.COMMUNICATION,
    NodeKind.COPY: TimeCause.COPYING,
}


@collector_paused()
def critical_path(graph: EventGraph) -> CriticalPath:
    """Walk back from the last event to the first.

    Raises:
        TraceError: the events wait for each other in a cycle.
    """
    _require_order(graph)
    if not graph.num_nodes:
        return CriticalPath(0, 0, (), ())
    binding = binding_edges(graph)
    node = _last(graph)
    start_ns, end_ns = int(graph.start.min()), int(graph.end[node])
    nodes: list[int] = []
    pieces: list[PathPiece] = []

    def add(cause: TimeCause, begin: int, end: int) -> None:
        if end > begin:
            pieces.append(PathPiece(node, int(graph.rank[node]), cause, begin, end))

    leave = end_ns
    while True:
        nodes.append(node)
        kind, over = graph.kind_of(node), int(graph.end[node])
        # never forward in time: clocks of several hosts agree only up to their uncertainty
        at = min(int(graph.at[node]), leave)
        add(TimeCause.OTHER, max(over, at), leave)
        add(_CAUSE_OF.get(kind, TimeCause.OTHER), at, min(leave, max(over, at)))
        edge = int(binding[node])
        ready = start_ns if edge == NONE else min(int(graph.ready[edge]), at)
        add(TimeCause.OTHER if kind in _LAG_ON_THE_PROGRAM else TimeCause.SCHEDULING, ready, at)
        if edge == NONE:
            break
        node, leave = int(graph.source[edge]), ready
    return CriticalPath(start_ns, end_ns, tuple(reversed(nodes)), tuple(reversed(pieces)))


_AT_ONCE = 100_000
"""Number of edges converted to Python integers at once."""


def slack(graph: EventGraph) -> Ints:
    """By node, the ns by which it could have ended later without delaying the end.

    0 on the critical path. Linear in the number of edges.

    Raises:
        TraceError: the events wait for each other in a cycle.
    """
    position = _require_order(graph)
    if not graph.num_nodes:
        return np.zeros(0, np.int64)
    # a target was ready for its last edge; for any other edge there is slack
    last_ready = np.full(graph.num_nodes, np.iinfo(np.int64).min)
    np.maximum.at(last_ready, graph.target, graph.ready)
    spare = last_ready[graph.target] - graph.ready
    to_the_end = graph.end[_last(graph)] - graph.end
    has_followers = np.zeros(graph.num_nodes, np.bool_)
    has_followers[graph.source] = True
    # an event may outlast the start of its successors: then they determine the slack
    free: list[int] = np.where(has_followers, np.iinfo(np.int64).max, to_the_end).tolist()
    order = np.argsort(position[graph.target], kind="stable")[::-1]
    for first in range(0, len(order), _AT_ONCE):
        some = order[first : first + _AT_ONCE]
        columns = graph.source[some].tolist(), graph.target[some].tolist(), spare[some].tolist()
        for source, target, extra in zip(*columns, strict=True):
            time = extra + free[target]
            free[source] = min(free[source], time)
    return np.array(free, np.int64)


def _require_order(graph: EventGraph) -> Ints:
    position = positions(graph)
    if position is None:
        raise TraceError(
            f"{graph.trace.folder}: the collectives wait for each other in a cycle, so there is "
            "no path through them: zerosim graph names the calls"
        )
    return position


_PREFERRED = (NodeKind.PHASE, NodeKind.WAIT, NodeKind.COMPUTE, NodeKind.MATCH, NodeKind.CALL)


def _last(graph: EventGraph) -> int:
    """The end of the graph; of several last nodes, one that follows the others."""
    final = np.flatnonzero(graph.end == graph.end.max())
    turns = np.full(len(NODE_CODES), len(_PREFERRED))
    for turn, kind in enumerate(_PREFERRED):
        turns[NODE_CODES[kind]] = turn
    return int(final[np.lexsort((-final, -graph.at[final], turns[graph.kind[final]]))[0]])


def binding_edges(graph: EventGraph) -> Ints:
    """By node, the last-ready edge; of several, the most informative one; or `NONE`."""
    turns = np.zeros(len(REASON_CODES), np.int8)
    for turn, reason in enumerate((Reason.OVER, Reason.ARRIVES, Reason.NEXT, Reason.ASKED)):
        turns[REASON_CODES[reason]] = 9 - turn
    order = np.lexsort((turns[graph.reason], graph.ready, graph.target))
    binding = np.full(graph.num_nodes, NONE, np.int64)
    binding[graph.target[order]] = order  # of equal targets, the last one remains
    return binding
