"""Loss scaling, iteration by iteration: losses, scales, and steps that all ranks left out.

Imports `facts.base` and zerosim's L0 and verify.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from zerosim.config import DType
from zerosim.errors import ConfigError
from zerosim.events import Kind, Metric, Op, Phase, Purpose
from zerosim.lessons.facts.base import Base
from zerosim.record import iterations
from zerosim.verify import verify


class Scaling(Base):
    """Facts of mixed precision."""

    def iterations(self, run: str) -> list[int]:
        """All complete iterations."""
        return list(iterations(self._recordings.trace(run)))

    def metric(self, run: str, name: str, iteration: int) -> float:
        """A number that the program reported: "loss", "loss scale".

        Raises:
            ConfigError: it did not.
        """
        for each in self._metrics(run):
            if each.name == name and each.iteration == iteration:
                return each.value
        raise ConfigError(f"{run} reported no {name} in iteration {iteration}")

    def config(self, run: str, name: str) -> float:
        """A number of a run's configuration, such as "learning_rate"."""
        value = self._recordings.trace(run).manifest.config[name]
        assert isinstance(value, int | float), name
        return float(value)

    def skipped(self, run: str) -> list[int]:
        """The iterations whose update was left out because a gradient overflowed."""
        return [each.iteration for each in self._metrics(run) if each.name == "overflow"]

    def scale(self, run: str, iteration: int) -> float:
        """What the loss of an iteration was multiplied with."""
        return self.metric(run, "loss scale", iteration)

    def updating_ranks(self, run: str, iteration: int) -> list[int]:
        """The ranks that computed an update in an iteration."""
        return [
            rank.rank
            for rank in self._recordings.trace(run).ranks
            if any(
                event.kind is Kind.COMPUTE
                and event.phase is Phase.UPDATE
                and event.iteration == iteration
                for event in rank.events
            )
        ]

    def sent_in(self, run: str, iteration: int, purpose: str = "") -> int:
        """What PyTorch was asked to send by rank 0 in an iteration."""
        rows = verify(self._recordings.trace(run), iteration).rows
        return sum(row.sent[0].trace for row in rows if purpose in ("", row.purpose))

    def order_of_update(self, run: str, iteration: int) -> list[str]:
        """What a rank does with gradients, in order: "reduce", "flag", "update", "gather"."""
        keys: Mapping[Purpose | None, str] = {
            Purpose.REDUCE_GRADIENTS: "reduce",
            Purpose.OVERFLOW_FLAG: "flag",
            Purpose.GATHER_PARAMETERS: "gather",
        }
        events = [e for e in self._recordings.trace(run).ranks[0].events if e.op is not Op.SEND]
        found = []
        for event in sorted(events, key=lambda one: one.issue_ns):
            if event.iteration != iteration:
                continue
            if event.kind is Kind.COLLECTIVE:
                found.append(keys.get(event.purpose, ""))
            elif event.kind is Kind.COMPUTE and event.phase is Phase.UPDATE:
                found.append("update")
        return [key for key in dict.fromkeys(found) if key]

    def rounded(self, value: float, dtype: str) -> float:
        """A number as a dtype has it: the nearest one, of two equally near the even one."""
        if DType(dtype) is DType.FP16:
            return float(struct.unpack("<e", struct.pack("<e", value))[0])
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        if DType(dtype) is DType.BF16:  # the upper half of an fp32
            bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])

    def _metrics(self, run: str) -> Sequence[Metric]:
        return self._recordings.trace(run).ranks[0].metrics
