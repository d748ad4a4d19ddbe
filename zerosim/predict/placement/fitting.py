"""A straight line through what was recorded: latency and bandwidth of what moves bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerosim.analysis.graph.table import Ints

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FittedLine:
    """Time by bytes.

    Attributes:
        latency_ns: of what carries nothing; 0 where only one size was seen.
        ns_per_byte: beside that.
        residual: in the median, how far what was recorded is from the line, as a part of it.
        count: through how many points.
    """

    latency_ns: float
    ns_per_byte: float
    residual: float
    count: int

    def at(self, payload_bytes: Ints) -> Floats:
        """Times of some sizes, ns."""
        times: Floats = self.latency_ns + self.ns_per_byte * payload_bytes.astype(np.float64)
        return times


def fit_line(
    payload_bytes: Ints, recorded_ns: Ints, middle: Callable[[Ints], Any] = np.median
) -> FittedLine:
    """Fit the medians of each size, or other middles, so that none is far off in proportion.

    Neither latency nor time by byte is ever below 0: a line that would have it so goes through the
    other alone.
    """
    if not len(payload_bytes):
        return FittedLine(0.0, 0.0, 0.0, 0)
    sizes, which = np.unique(payload_bytes, return_inverse=True)
    medians = np.array([middle(recorded_ns[which == one]) for one in range(len(sizes))])
    medians = np.maximum(medians, 1.0)
    counts = np.bincount(which)
    latency, per_byte = _solve(sizes.astype(np.float64), medians, np.sqrt(counts * medians))
    fitted = np.maximum(latency + per_byte * payload_bytes, 1.0)
    residual = float(np.median(np.abs(recorded_ns - fitted) / fitted))
    return FittedLine(latency, per_byte, residual, len(payload_bytes))


def _solve(sizes: Floats, medians: Floats, weights: Floats) -> tuple[float, float]:
    """Least squares of the errors as parts of the times, by the time of each size in all."""
    if len(sizes) == 1:
        return (0.0, float(medians[0] / sizes[0])) if sizes[0] else (float(medians[0]), 0.0)
    columns = np.stack([weights / medians, weights * sizes / medians], axis=1)
    (latency, per_byte), *_ = np.linalg.lstsq(columns, weights, rcond=None)
    if per_byte < 0:
        return float(np.median(medians)), 0.0
    if latency < 0:
        known = sizes > 0
        return 0.0, float(np.median(medians[known] / sizes[known]))
    return float(latency), float(per_byte)
