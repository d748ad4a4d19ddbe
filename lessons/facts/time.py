"""Time of an iteration by cause: exposed, hidden, waiting, and the critical path.

The numbers of `zerosim graph`, in milliseconds; over all ranks by default.
"""

from __future__ import annotations

from zerosim.lessons.facts.base import Base

NS_A_MS = 1e6
Rank = int | str
"""A rank's number, or its key as one clicks it."""


class Time(Base):
    """Facts of time."""

    def took_ms(self, run: str) -> float:
        """From the first begin to the last end: the length of the critical path."""
        took: int = sum(self._run(run).time()["duration_ns"])
        return took / NS_A_MS

    def path_share(self, run: str, cause: str) -> float:
        """The fraction of the critical path with one cause."""
        table = self._run(run).time()
        spent = {row["cause"]: row["duration_ns"] for row in table}
        return float(spent.get(cause, 0) / sum(spent.values()))

    def wall_ms(self, run: str, rank: Rank | None = None, phase: str = "") -> float:
        """The sum of all that follow."""
        return self._spent(run, "wall", rank, phase) / NS_A_MS

    def compute_ms(self, run: str, rank: Rank | None = None, phase: str = "") -> float:
        """Units computed."""
        return self._spent(run, "compute", rank, phase) / NS_A_MS

    def exposed_ms(self, run: str, rank: Rank | None = None, phase: str = "") -> float:
        """Stalls of the program during communication with all ranks present."""
        return self._spent(run, "exposed", rank, phase) / NS_A_MS

    def waiting_ms(self, run: str, rank: Rank | None = None, phase: str = "") -> float:
        """The program was stalled because another rank had not arrived."""
        return self._spent(run, "waiting", rank, phase) / NS_A_MS

    def other_ms(self, run: str, rank: Rank | None = None, phase: str = "") -> float:
        """The program's own code between these."""
        return self._spent(run, "other", rank, phase) / NS_A_MS

    def hidden_ms(self, run: str, rank: Rank | None = None, phase: str = "") -> float:
        """Communication that did not stall the program."""
        return self._spent(run, "hidden", rank, phase) / NS_A_MS

    def overlap(self, run: str, phase: str = "") -> float:
        """The hidden fraction of the communication; 0 if there was none."""
        hidden, exposed = (self._spent(run, part, None, phase) for part in ("hidden", "exposed"))
        return hidden / (hidden + exposed) if hidden + exposed else 0.0

    def path_rank(self, run: str) -> str:
        """The rank with the largest part of the critical path."""
        path = self._run(run).graph_report().path
        assert path is not None, run
        own = path.by_rank()
        return str(max(own, key=lambda rank: own[rank]))

    def waits_most(self, run: str) -> str:
        """The rank that waits longest for others."""
        return str(max(self._run(run).ranks, key=lambda rank: self.waiting_ms(run, rank)))

    def straggler(self, run: str) -> str:
        """The rank that the others wait longest for."""
        return str(max(self._run(run).ranks, key=lambda rank: self.waited_ms(run, rank)))

    def waited_ms(self, run: str, straggler: Rank) -> float:
        """Time for which all others together waited for one rank."""
        budgets = self._run(run).graph_report().budgets
        return budgets.waited_for(int(straggler)) / NS_A_MS

    def stands_longer(self, one: str, other: str) -> str:
        """The one of two runs with more exposed communication."""
        return max(one, other, key=self.exposed_ms)

    def _spent(self, run: str, part: str, rank: Rank | None, phase: str) -> int:
        return sum(
            row[f"{part}_ns"] or 0
            for row in self._run(run).time(by=("rank", "phase"))
            if rank in (None, row["rank"], str(row["rank"])) and phase in ("", row["phase"])
        )
