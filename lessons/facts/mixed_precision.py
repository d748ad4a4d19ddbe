"""Number formats, and loss scaling: losses, scales, and steps that all ranks left out."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from zerosim.base.config import DType
from zerosim.base.errors import ConfigError
from zerosim.lessons.facts.base import Base
from zerosim.schema.events import Metric

_BITS = {DType.FP32: (8, 23), DType.BF16: (8, 7), DType.FP16: (5, 10)}
"""Bits of exponent and fraction, besides the sign: IEEE 754, and the upper half of its fp32."""


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
        """The iterations whose update was skipped because a gradient overflowed."""
        return [each.iteration for each in self._metrics(run) if each.name == "overflow"]

    def scale(self, run: str, iteration: int) -> float:
        """The loss scale of an iteration."""
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

    def exponent_bits(self, dtype: str) -> int:
        """Number of bits that determine the range."""
        return _BITS[DType(dtype)][0]

    def fraction_bits(self, dtype: str) -> int:
        """Number of bits that determine the precision."""
        return _BITS[DType(dtype)][1]

    def spacing(self, dtype: str) -> float:
        """Distance of one to the next number."""
        return float(2.0 ** -self.fraction_bits(dtype))

    def largest(self, dtype: str) -> float:
        """The largest number that is not infinite."""
        return float((2 - self.spacing(dtype)) * 2.0 ** self._bias(dtype))

    def smallest(self, dtype: str) -> float:
        """The smallest number that is not zero."""
        return float(self.spacing(dtype) * 2.0 ** (1 - self._bias(dtype)))

    def updated(self, update: float, times: int, dtype: str) -> float:
        """A weight of one, rounded to a dtype after each of `times` updates."""
        weight = 1.0
        for _ in range(times):
            weight = self.rounded(weight + update, dtype)
        return weight

    def updates_until_seen(self, update: float, dtype: str) -> int:
        """Updates of an fp32 master of one until its rounded value changes."""
        times = 1
        while self.rounded(self.updated(update, times, DType.FP32), dtype) == 1:
            times += 1
        return times

    def _bias(self, dtype: str) -> int:
        return int(2 ** (self.exponent_bits(dtype) - 1) - 1)

    def _metrics(self, run: str) -> Sequence[Metric]:
        return self._run(run).trace.ranks[0].metrics
