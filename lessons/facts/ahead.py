"""What is gathered ahead of its use. Imports `facts.moments`."""

from __future__ import annotations

from zerosim.lessons.facts.moments import Moments
from zerosim.memory import Role


class Ahead(Moments):
    """Facts of prefetching; of rank 0 unless one is given."""

    def units(self, run: str) -> list[str]:
        """All units by name."""
        return [unit["name"] for unit in self._document(run)["units"]]

    def units_at_once(self, run: str, rank: int = 0) -> int:
        """The most units that are gathered, or on their way, where a computation begins."""
        return max(
            len({unit for role, unit in passed.held if role is Role.GATHERED})
            for passed in self._passed(run, rank)
        )
