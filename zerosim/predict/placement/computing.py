"""The speed of computations, fitted to recorded ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from zerosim.predict.placement.fitting import Floats
from zerosim.predict.placement.seen import Computed

_BETTER = 1e-6
"""The fraction by which one more constant has to improve the fit."""


@dataclass(frozen=True, slots=True)
class ComputeRates:
    """The speed of computations.

    Attributes:
        flops_per_second: speed of operators with FLOPs; None if there are none.
        flops_per_second_fp32: speed of those with 32-bit elements.
        bytes_per_second: speed of operators that only move bytes; None if there are none.
        operator_ns: overhead of each operator.
        residual: median deviation of the recorded times from the fit, relative.
        count: number of computations.
    """

    flops_per_second: float | None
    flops_per_second_fp32: float | None
    bytes_per_second: float | None
    operator_ns: float
    residual: float
    count: int


def fit_computing(computed: Sequence[Computed]) -> ComputeRates:
    """Fit the means of equal computations.

    Errors count relatively, weighted by total time: a step is the sum of computations, and a mean
    represents many of them.
    """
    alike: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for one in computed:
        alike[_parts(one)].append(one.time_ns)
    work = np.array(list(alike), np.float64)
    means = np.array([float(np.mean(times)) for times in alike.values()])
    totals = np.array([float(np.sum(times)) for times in alike.values()])
    weights = np.sqrt(totals / totals.sum())
    costs = _not_negative(work / means[:, None] * weights[:, None], weights)
    every = np.array([_parts(one) for one in computed], np.float64)
    fitted = np.maximum(every @ costs, 1.0)
    times = np.array([one.time_ns for one in computed], np.float64)
    residual = float(np.median(np.abs(times / fitted - 1)))
    flops, wide, moved = (1e9 / cost if cost else None for cost in costs[:3].tolist())
    return ComputeRates(flops, wide, moved, float(costs[3]), residual, len(computed))


def _parts(one: Computed) -> tuple[int, int, int, int]:
    wide = one.flops if one.is_wide else 0
    return one.flops - wide, wide, one.moved_bytes, one.operators


def _not_negative(parts: Floats, wanted: Floats) -> Floats:
    """The nonnegative coefficients that best fit all sums of parts.

    There are so few costs that all choices of nonzero ones are tried.
    """
    count = parts.shape[1]
    best, least = np.zeros(count), np.inf
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            columns = parts[:, list(chosen)]
            found, *_ = np.linalg.lstsq(columns, wanted, rcond=None)
            off = float(np.sum((columns @ found - wanted) ** 2))
            if np.all(found >= 0) and off < least * (1 - _BETTER):
                best, least = np.zeros(count), off
                best[list(chosen)] = found
    return best
