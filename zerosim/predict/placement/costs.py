"""The interface of a cost model, and the recorded times."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from zerosim.analysis.graph import EventGraph, NodeKind
from zerosim.analysis.graph.table import Ints
from zerosim.predict.placement.network import Network
from zerosim.predict.placement.sharing import Needs
from zerosim.record import RankTrace
from zerosim.record.bounds import LONGEST_NS


def whole_ns(times: Any) -> Ints:
    """Computed times as whole ns, limited to twice the longest run."""
    whole: Ints = np.rint(np.clip(times, -2 * LONGEST_NS, 2 * LONGEST_NS)).astype(np.int64)
    return whole


@dataclass(frozen=True)
class Tasks:
    """Some events of one kind that take time.

    Attributes:
        graph: their event graph.
        kind: COMPUTE, CALL (without messages), SEND, RECEIVE or COPY.
        rows: their nodes in the graph.
        recorded: the recorded duration of each, ns.
    """

    graph: EventGraph
    kind: NodeKind
    rows: Ints
    recorded: Ints

    @cached_property
    def _by_rank(self) -> list[tuple[RankTrace, Ints]]:
        """The ranks, each with its part of these events."""
        place = self.graph.place[self.rows]
        order = np.argsort(place, kind="stable")
        cuts = np.searchsorted(place[order], np.arange(len(self.graph.trace.ranks) + 1))
        ranks = self.graph.trace.ranks
        return [(rank, order[cuts[i] : cuts[i + 1]]) for i, rank in enumerate(ranks)]

    def column(self, name: str) -> list[Any]:
        """One field of all of them, as in an `Event`."""
        found: list[Any] = [None] * len(self.rows)
        for rank, among in self._by_rank:
            events = rank.events.pick(self.graph.event[self.rows[among]].tolist())
            for index, value in zip(among.tolist(), events.read(name), strict=True):
                found[index] = value
        return found

    @property
    def rank(self) -> Ints:
        """Global ranks."""
        return self.graph.rank[self.rows]

    def groups(self) -> list[tuple[int, ...]]:
        """For calls, the ranks that take part."""
        names = self.column("group")
        found: list[tuple[int, ...]] = [()] * len(names)
        for rank, among in self._by_rank:
            ranks = {name: group.ranks for name, group in rank.groups.items()}
            for index in among.tolist():
                found[index] = ranks.get(names[index], ())
        return found

    def each(self, cost: Callable[..., float], *columns: list[Any]) -> Ints:
        """The duration of each, ns, by a function of these columns that is called once for equal
        rows.
        """
        known: dict[Hashable, int] = {}

        def asked() -> Iterator[int]:
            for values in zip(*columns, strict=True):
                if values not in known:
                    known[values] = round(cost(*values))
                yield known[values]

        return np.fromiter(asked(), np.int64, len(self.rows))


class Costs(Protocol):
    """Durations, ns: of each of the given events, in order."""

    def computations(self, tasks: Tasks) -> Ints:
        """A unit's forward, backward or update, without interruptions."""
        ...

    def collectives(self, tasks: Tasks) -> Ints:
        """Calls without recorded messages, from the last rank's arrival to the call's own end."""
        ...

    def messages(self, tasks: Tasks) -> Ints:
        """Messages of a call, from the time at which both ends are ready."""
        ...

    def copies(self, tasks: Tasks) -> Ints:
        """From one tier of a rank to another."""
        ...

    def lags(self, network: Network) -> Ints:
        """By moment: the time of own code or threads from its last predecessor to the moment."""
        ...

    def offsets(self, network: Network) -> Ints:
        """By edge: the time from the end of an event to its request, or to the next event."""
        ...

    def needs(self, tasks: Tasks, /) -> list[Needs] | None:
        """The resource that each of them shares with others; None if nothing is shared."""
        ...


class Recorded:
    """Everything takes as long as it was recorded: the run itself."""

    def computations(self, tasks: Tasks) -> Ints:
        """As recorded."""
        return tasks.recorded

    def collectives(self, tasks: Tasks) -> Ints:
        """As recorded."""
        return tasks.recorded

    def messages(self, tasks: Tasks) -> Ints:
        """As recorded."""
        return tasks.recorded

    def copies(self, tasks: Tasks) -> Ints:
        """As recorded."""
        return tasks.recorded

    def lags(self, network: Network) -> Ints:
        """As recorded."""
        return network.lag

    def offsets(self, network: Network) -> Ints:
        """As recorded."""
        return network.offset

    def needs(self, _: Tasks, /) -> list[Needs] | None:
        """None: recorded durations already include the effect of sharing."""
        return None
