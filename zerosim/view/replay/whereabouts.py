"""The step of a replay at which each node of an event graph happens."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

from zerosim.analysis.frames import Step, Steps
from zerosim.analysis.graph import EventGraph, NodeKind
from zerosim.analysis.graph.kinds import PHASES
from zerosim.analysis.graph.table import NONE
from zerosim.schema.events import Kind, Phase


class Whereabouts:
    """Finds the step of a node; a node without its own step belongs to its rank's current step.

    A wait belongs to the first step during which it lasts; a negligible wait has no step.
    """

    def __init__(self, graph: EventGraph, steps: Steps) -> None:
        """Prepare.

        Args:
            graph: of one iteration.
            steps: of the same iteration.
        """
        self._graph, self._steps = graph, steps
        self._of_event: dict[tuple[int, int], int] = {}
        self._of_hop: dict[tuple[int, int], int] = {}
        self._of_collective: dict[int, int] = {}
        self._of_mark: dict[tuple[Phase, int], int] = {}
        seen: Counter[Phase] = Counter()
        for number, step in enumerate(steps.steps):
            self._add(number, step, seen)
        self._local = {rank.rank: steps.local_times(rank.rank) for rank in graph.trace.ranks}
        self._marks: Counter[tuple[int, Phase]] = Counter()

    def _add(self, number: int, step: Step, seen: Counter[Phase]) -> None:
        for wait in step.waits:
            self._of_event.setdefault((wait.rank, wait.event.id), number)
        if step.kind is Kind.MARK:
            self._of_mark[step.phase, seen[step.phase]] = number
            seen[step.phase] += 1
        elif step.kind in (Kind.COMPUTE, Kind.COPY):
            for rank, event in step.events.items():
                self._of_event.setdefault((rank, event.id), number)
        elif step.collective is not None:
            self._of_collective.setdefault(step.collective, number)
            if step.hop is not None:
                self._of_hop.setdefault((step.collective, step.hop), number)

    def all(self) -> list[int]:
        """By node, its step."""
        graph = self._graph
        order = sorted(range(graph.num_nodes), key=lambda node: int(graph.start[node]))
        found = [0] * graph.num_nodes
        for node in order:  # the n-th mark of a rank's phase is the n-th in time
            found[node] = self._step_of(node)
        return found

    def _step_of(self, node: int) -> int:
        graph = self._graph
        kind, rank = graph.kind_of(node), int(graph.rank[node])
        collective = int(graph.collective[node])
        step: int | None = None
        if kind is NodeKind.PHASE:
            phase = PHASES[graph.phase[node]]
            step = self._of_mark.get((phase, self._marks[rank, phase]))
            self._marks[rank, phase] += 1
        elif kind in (NodeKind.COMPUTE, NodeKind.WAIT, NodeKind.COPY):
            event = graph.event_of(node)
            step = None if event is None else self._of_event.get((rank, event.id))
        elif kind in (NodeKind.SEND, NodeKind.RECEIVE):
            event = graph.event_of(node)
            hop = 0 if event is None or event.hop is None else event.hop
            step = self._of_hop.get((collective, hop))
        if step is None and collective != NONE and kind is not NodeKind.WAIT:
            step = self._of_collective.get(collective)
        return self._at_time(node, rank) if step is None else step

    def _at_time(self, node: int, rank: int) -> int:
        """The step that a rank has reached."""
        own = int(self._graph.start[node]) - self._steps.zero_ns
        return max(0, bisect_right(self._local[rank], own) - 1)
