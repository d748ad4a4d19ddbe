"""Loss scaling, iteration by iteration: losses, scales, and steps that all ranks left out.

Imports `facts.base` and zerosim's L0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from zerosim.config import DType
from zerosim.errors import ConfigError
from zerosim.events import Metric
from zerosim.lessons.facts.base import Base


class Scaling(Base):
    """Facts of mixed precision."""

    def iterations(self, run: str) -> list[int]:
        """All complete iterations."""
        return list(self._run(run).iterations)

    def metric(self, run: str, name: str, iteration: int) -> float:
        """A number that the program reported: "loss", "loss scale".

        Raises:
            ConfigError: it did not.
        """
        for each in self._metrics(run):
            if each.name == name and each.iteration == iteration:
                return each.value
        raise ConfigError(f"{run} reported no {name} in iteration {iteration}")

    def skipped(self, run: str) -> list[int]:
        """The iterations whose update was left out because a gradient overflowed."""
        return [each.iteration for each in self._metrics(run) if each.name == "overflow"]

    def scale(self, run: str, iteration: int) -> float:
        """What the loss of an iteration was multiplied with."""
        return self.metric(run, "loss scale", iteration)

    def updating_ranks(self, run: str, iteration: int) -> list[int]:
        """The ranks that computed an update in an iteration."""
        table = self._run(run).events(kind="compute", phase="update", iteration=iteration)
        return sorted(set(table["rank"]))

    def rounded(self, value: float, dtype: str) -> float:
        """A number as a dtype has it: the nearest one, of two equally near the even one."""
        if DType(dtype) is DType.FP16:
            return float(struct.unpack("<e", struct.pack("<e", value))[0])
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        if DType(dtype) is DType.BF16:  # the upper half of an fp32
            bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
        return float(struct.unpack("<f", struct.pack("<I", bits))[0])

    def _metrics(self, run: str) -> Sequence[Metric]:
        return self._run(run).trace.ranks[0].metrics
