"""The arrays of a graph under construction."""

from __future__ import annotations

from typing import Any

import numpy as np

from zerosim.analysis.graph.collectives import MatchedCollectives
from zerosim.analysis.graph.kinds import NODE_CODES, PHASE_CODES, REASON_CODES, NodeKind, Reason
from zerosim.analysis.graph.phases import Border
from zerosim.analysis.graph.table import NONE, EventTable, Ints, Mask


class Nodes:
    """Nodes: first all events, by row of the table, then collectives, phases, later pieces."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self._parts: list[dict[str, Any]] = []
        self._count = 0

    def _append(self, **columns: Any) -> int:
        """Add nodes; returns the number of the first."""
        first = self._count
        self._parts.append(columns)
        self._count += len(columns["kind"])
        return first

    def add_events(self, table: EventTable, collectives: MatchedCollectives) -> None:
        """A node for each event."""
        at_end = np.isin(table.kind, [NODE_CODES[NodeKind.WAIT], NODE_CODES[NodeKind.RECEIVE]])
        above = table.parent != NONE
        collective = collectives.of_row.copy()
        collective[above] = collectives.of_row[table.parent[above]]
        self._append(
            kind=table.kind,
            rank=table.rank,
            place=table.place,
            event=np.arange(len(table.id)) - table.base[table.place],
            collective=collective,
            iteration=table.iteration,
            phase=table.phase,
            start=table.start,
            end=table.end,
            at=np.where(at_end, table.end, table.start),
        )

    def add_collectives(self, table: EventTable, collectives: MatchedCollectives) -> int:
        """A node for each matched collective; returns the number of the first."""
        first = collectives.first
        count = len(first)
        return self._append(
            kind=np.full(count, NODE_CODES[NodeKind.MATCH], np.int8),
            rank=collectives.last,
            place=table.place[first],
            event=first - table.base[table.place[first]],
            collective=np.arange(count),
            iteration=table.iteration[first],
            phase=table.phase[first],
            start=collectives.arrival,
            end=collectives.end,
            at=collectives.arrival,
        )

    def add_borders(self, place: int, rank: int, borders: list[Border]) -> int:
        """A node for each phase that begins on a rank; returns the number of the first."""
        count = len(borders)
        times = np.array([border.time_ns for border in borders], np.int64)
        return self._append(
            kind=np.full(count, NODE_CODES[NodeKind.PHASE], np.int8),
            rank=np.full(count, rank, np.int64),
            place=np.full(count, place, np.int64),
            event=np.full(count, NONE, np.int64),
            collective=np.full(count, NONE, np.int64),
            iteration=np.array([border.iteration for border in borders], np.int64),
            phase=np.array([PHASE_CODES[border.phase] for border in borders], np.int8),
            start=times,
            end=times,
            at=times,
        )

    def add_pieces(self, nodes: Ints, start: Ints, end: Ints, is_moment: Mask) -> Ints:
        """Create a node for each piece of an interrupted computation.

        Args:
            nodes: in order of time; a computation occurs once per piece.

        Returns:
            The nodes of the pieces.
        """
        _, first = np.unique(nodes, return_index=True)
        is_first = np.zeros(len(nodes), np.bool_)
        is_first[first] = True
        again = np.flatnonzero(~is_first)
        if not len(again):
            return nodes
        events = self._parts[0]
        cut = np.flatnonzero(is_first & ~is_moment)
        events["end"][nodes[cut]] = end[cut]
        copies = {name: values[nodes[again]] for name, values in events.items()}
        copies |= {"start": start[again], "end": end[again], "at": start[again]}
        pieces = nodes.copy()
        pieces[again] = self._append(**copies) + np.arange(len(again))
        return pieces

    def arrays(self) -> dict[str, Any]:
        """All nodes, by the names that `EventGraph` uses; the collection is empty afterwards."""
        names = list(self._parts[0])
        return {name: np.concatenate([part.pop(name) for part in self._parts]) for name in names}


class Edges:
    """Edges in the order in which they were found."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self._parts: list[tuple[Ints, Ints, Any, Ints]] = []
        self._follows: list[tuple[Ints, Ints]] = []

    def add(self, source: Ints, target: Ints, reason: Reason, ready: Ints) -> None:
        """Add edges that have one reason."""
        code = np.full(len(source), REASON_CODES[reason], np.int8)
        self._parts.append((source, target, code, ready))

    def follow(self, calls: Ints, followers: Ints) -> None:
        """Remember the successors of a call's end, for its last message."""
        self._follows.append((calls, followers))

    def followers(self) -> tuple[Ints, Ints]:
        """The remembered calls, with their successors."""
        calls = np.concatenate([one for one, _ in self._follows])
        return calls, np.concatenate([other for _, other in self._follows])

    def arrays(self, at: Ints) -> dict[str, Any]:
        """All edges, by the names that `EventGraph` uses.

        Within the uncertainty of two hosts' clocks, a message can seem to arrive before it was
        sent; it then counts as ready on arrival.
        """
        source, target, reason, ready = (
            np.concatenate([part[column] for part in self._parts]) for column in range(4)
        )
        return {
            "source": source,
            "target": target,
            "reason": reason,
            "ready": np.minimum(ready, at[target]),
        }
