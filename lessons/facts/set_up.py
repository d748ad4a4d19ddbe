"""Memory and traffic of ranks until the first step begins; and rank by rank, if they differ.

The peak is from PyTorch's own record of allocations, between the first sample and the first
forward. For rank 0 by default.
"""

from __future__ import annotations

from zerosim.analysis.memory import timeline
from zerosim.base.config import DType
from zerosim.base.errors import ConfigError
from zerosim.lessons.facts.base import Base
from zerosim.schema.events import Event, Kind, Op

_BEFORE = -1
"""The iteration number before the first."""


class SetUp(Base):
    """Facts about the time before training, and about ranks with different memory or traffic."""

    def set_up_peak(self, run: str, rank: int = 0) -> int:
        """The most that PyTorch had allocated before the first step.

        Raises:
            ConfigError: it was not recorded.
        """
        line = timeline(self._run(run).trace.ranks[rank])
        before = [at for at, one in enumerate(line.samples) if one.iteration <= _BEFORE]
        found = max((int(line.between[at]) for at in before), default=0)
        if found <= 0:
            raise ConfigError(f"{run}: what was allocated during set-up was not recorded")
        return found

    def set_up_left(self, run: str, rank: int = 0) -> int:
        """PyTorch's allocations when the first step begins.

        Raises:
            ConfigError: it was not recorded.
        """
        line = timeline(self._run(run).trace.ranks[rank])
        first = next(at for at, one in enumerate(line.samples) if one.iteration > _BEFORE)
        found = int(line.allocated[first])
        if found < 0:
            raise ConfigError(f"{run}: what was allocated during set-up was not recorded")
        return found

    def in_models(self, num_bytes: float, run: str) -> float:
        """Bytes as a multiple of the whole model's parameters in fp32, as they are made."""
        return num_bytes / (self.model_psi(run) * DType.FP32.element_bytes)

    def set_up_payload(self, run: str, op: str = "") -> int:
        """Buffers of collectives that were called before the first step, barriers left out."""
        return sum(one.payload_bytes for one in self._before(run) if op in ("", one.op))

    def set_up_calls(self, run: str, op: str = "") -> int:
        """Number of collectives called before the first step, without barriers."""
        return len([one for one in self._before(run) if op in ("", one.op)])

    def kinds_of_parts(self, run: str) -> int:
        """Number of different parts of the first layer on the ranks, by the sum of each."""
        sums = {
            metric.value
            for rank in self._run(run).trace.ranks
            for metric in rank.metrics
            if metric.name == "sum of the own part of the first layer"
        }
        if not sums:
            raise ConfigError(f"{run}: its ranks did not say what their parts are")
        return len(sums)

    def least_allocated_first(self, *runs: str) -> list[str]:
        """Settings by name: the one with the smallest set-up peak first."""
        return [run.partition("/")[0] for run in sorted(runs, key=self.set_up_peak)]

    def held_by_rank(self, run: str) -> list[int]:
        """Model states of each rank at the start of the update, measured."""
        count = self.num_ranks(run)
        rows = self._memory(run).rows
        return [sum(row.measured_bytes[rank] for row in rows) for rank in range(count)]

    def sent_by_rank(self, run: str, op: str = "", unit: str = "") -> list[int]:
        """Bytes that each rank sends in a step: in all, by one operation, of one unit."""
        chosen = {"op": op, "unit": unit}
        given = {name: value for name, value in chosen.items() if value}
        return [
            self._run(run).traffic(rank=rank, **given).sent_bytes or 0
            for rank in range(self.num_ranks(run))
        ]

    def owned_units(self, run: str, rank: int = 0) -> list[str]:
        """The units that a rank keeps whole, if units have owners in turn."""
        return self.units(run)[rank :: self.num_ranks(run)]

    def _before(self, run: str) -> list[Event]:
        return [
            event
            for event in self._run(run).trace.ranks[0].events
            if event.kind is Kind.COLLECTIVE
            and event.iteration <= _BEFORE
            and event.op is not Op.BARRIER
        ]
