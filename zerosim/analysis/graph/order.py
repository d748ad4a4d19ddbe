"""A topological order of the nodes, or a cycle that forbids one.

Time gives the order: of two nodes the earlier one is first, and a collective follows the arrivals
at it. One pass over arrays checks that every edge then goes forward; only if one does not, the
edges themselves are followed (Kahn 1962).
"""

from __future__ import annotations

from collections import deque

import numpy as np

from zerosim.analysis.graph.kinds import NODE_CODES, NodeKind
from zerosim.analysis.graph.model import EventGraph
from zerosim.analysis.graph.table import Ints

_TURN = {
    NodeKind.RECEIVE: 2,
    NodeKind.SEND: 3,  # received data is forwarded at once
    NodeKind.WAIT: 4,
    NodeKind.PHASE: 5,
    NodeKind.COMPUTE: 6,
    NodeKind.CALL: 0,
    NodeKind.MATCH: 1,
    NodeKind.COPY: 7,
    NodeKind.MARK: 8,
}
"""Order of kinds at equal times."""


def positions(graph: EventGraph) -> Ints | None:
    """The index of each node in a topological order; None if there is none."""
    turns = np.zeros(len(NODE_CODES), np.int8)
    for kind, turn in _TURN.items():
        turns[NODE_CODES[kind]] = turn
    order = np.lexsort((turns[graph.kind], graph.at))
    position = np.empty(graph.num_nodes, np.int64)
    position[order] = np.arange(graph.num_nodes)
    if np.all(position[graph.source] < position[graph.target]):
        return position
    found, left = _follow(graph)
    return None if left else found


def find_cycle(graph: EventGraph) -> list[int]:
    """Nodes of a cycle; empty if there is none.

    The cycle is one of possibly several.
    """
    if positions(graph) is not None:
        return []
    _, left = _follow(graph)
    inside = np.zeros(graph.num_nodes, np.bool_)
    inside[list(left)] = True
    # every remaining node has a remaining predecessor: go back until one recurs
    kept = inside[graph.source] & inside[graph.target]
    before = dict(zip(graph.target[kept].tolist(), graph.source[kept].tolist(), strict=True))
    node, seen = min(left), dict[int, int]()
    while node not in seen:
        seen[node] = len(seen)
        node = before[node]
    circle = list(seen)[seen[node] :]
    circle.reverse()
    first = circle.index(min(circle))
    return circle[first:] + circle[:first]


def _follow(graph: EventGraph) -> tuple[Ints, set[int]]:
    """Positions, and the nodes that no order reaches."""
    order = np.argsort(graph.source, kind="stable")
    target = graph.target[order].tolist()
    begins = np.searchsorted(graph.source[order], np.arange(graph.num_nodes + 1)).tolist()
    missing = np.bincount(graph.target, minlength=graph.num_nodes).tolist()
    ready = deque(node for node, count in enumerate(missing) if count == 0)
    position = np.zeros(graph.num_nodes, np.int64)
    placed = 0
    while ready:
        node = ready.popleft()
        position[node] = placed
        placed += 1
        for follower in target[begins[node] : begins[node + 1]]:
            missing[follower] -= 1
            if missing[follower] == 0:
                ready.append(follower)
    return position, {node for node, count in enumerate(missing) if count > 0}
