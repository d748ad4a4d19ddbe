"""Where the time of an iteration went: exposed, hidden, waiting, and the critical path.

The numbers of `zerosim graph`, in milliseconds; of all ranks together unless one is given.
Imports `facts.base` and zerosim's analysis.
"""

from __future__ import annotations

from zerosim.analysis import Budget, Cause
from zerosim.events import Phase
from zerosim.lessons.facts.base import Base

NS_A_MS = 1e6
Rank = int | str
"""A rank's number, or its key as one clicks it."""


class Time(Base):
    """Facts of time."""

    def took_ms(self, run: str) -> float:
        """From the first begin to the last end: the length of the critical path."""
        path = self._graph(run).path
        assert path is not None, run
        return path.duration_ns / NS_A_MS

    def wall_ms(self, run: str, rank: Rank | None = None, phase: str = "") -> float:
        """What all that follows sums to."""
        return self._budget(run, rank, phase).wall_ns / NS_A_MS

    def compute_ms(self, run: str, rank: Rank | None = None, phase: str = "") -> float:
        """Units computed."""
        return self._budget(run, rank, phase).compute_ns / NS_A_MS

    def exposed_ms(self, run: str, rank: Rank | None = None, phase: str = "") -> float:
        """The program stood still while bytes moved, all ranks being there."""
        return self._budget(run, rank, phase).exposed_ns / NS_A_MS

    def waiting_ms(self, run: str, rank: Rank | None = None, phase: str = "") -> float:
        """The program stood still because another rank had not arrived."""
        return self._budget(run, rank, phase).waiting_ns / NS_A_MS

    def other_ms(self, run: str, rank: Rank | None = None, phase: str = "") -> float:
        """The program's own code between these."""
        return self._budget(run, rank, phase).other_ns / NS_A_MS

    def hidden_ms(self, run: str, rank: Rank | None = None, phase: str = "") -> float:
        """Communication while the program did not stand still."""
        return self._budget(run, rank, phase).hidden_ns / NS_A_MS

    def overlap(self, run: str, phase: str = "") -> float:
        """Which part of the communication is hidden; 0 if there was none."""
        return self._budget(run, None, phase).overlap or 0.0

    def path_share(self, run: str, cause: str) -> float:
        """Which part of the critical path one cause has."""
        path = self._graph(run).path
        assert path is not None, run
        return path.by_cause()[Cause(cause)] / path.duration_ns

    def path_rank(self, run: str) -> str:
        """The rank whose own time the critical path has most of."""
        path = self._graph(run).path
        assert path is not None, run
        own = path.by_rank()
        return str(max(own, key=lambda rank: own[rank]))

    def waits_most(self, run: str) -> str:
        """The rank that stands still longest for others."""
        ranks = self._graph(run).budgets.ranks
        return str(max(ranks, key=lambda rank: self.waiting_ms(run, rank)))

    def straggler(self, run: str) -> str:
        """The rank that the others stand still longest for."""
        found = self._graph(run).budgets
        return str(max(found.ranks, key=found.waited_for))

    def waited_ms(self, run: str, straggler: Rank) -> float:
        """What all others together stood still for one rank."""
        return self._graph(run).budgets.waited_for(int(straggler)) / NS_A_MS

    def stands_longer(self, one: str, other: str) -> str:
        """Which of two runs has more exposed communication."""
        return max(one, other, key=self.exposed_ms)

    def _budget(self, run: str, rank: Rank | None, phase: str) -> Budget:
        number = None if rank is None else int(rank)
        return self._graph(run).budgets.of(rank=number, phase=Phase(phase) if phase else None)
