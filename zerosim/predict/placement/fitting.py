"""A straight line through recorded transfers: latency and bandwidth."""

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
    """Transfer time as a linear function of bytes.

    Attributes:
        latency_ns: latency; 0 if only one size was observed.
        ns_per_byte: time per byte.
        residual: median deviation of the recorded times from the line, relative.
        count: number of points.
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
    """Fit the medians of each size, or other centers, with small relative errors for all.

    Neither latency nor time per byte is ever negative: if the fit gives a negative one, the line
    uses the other alone.
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
    """Least squares of the relative errors, weighted by the total time of each size."""
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
