"""Which law is it: k(N-1)/N payloads over the number of ranks, and where a run lies.

Imports the standard library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

RANKS = range(1, 65)
"""Where a curve is computed. The axis is logarithmic."""
TICKS = (1, 2, 4, 8, 16, 32, 64)
WIDTH, HEIGHT = 1000, 500
"""Of the drawing that the points are in."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One law.

    Attributes:
        payloads: k: how many payloads of the size of all parameters a rank exchanges.
        points: "x,y x,y ..." in the drawing.
        end: percent of the height from below, where it leaves on the right.
        is_own: whether it is the law of the run's stage.
    """

    payloads: int
    points: str
    end: float
    is_own: bool


@dataclass(frozen=True, slots=True)
class Laws:
    """The figure.

    Attributes:
        left, bottom: percent, where the run lies; None if what it sent is not known.
        psi: payloads that it sent.
        ticks: number of ranks and percent from the left.
    """

    curves: tuple[Curve, ...]
    left: float
    bottom: float | None
    psi: Fraction | None
    ticks: tuple[tuple[int, float], ...]


def laws(own: int, num_ranks: int, psi: Fraction | None) -> Laws:
    """The laws 1 to 4, and more if the run needs them.

    Args:
        own: payloads of the run's own law.
        num_ranks: N.
        psi: what a rank sent, in payloads; None if it is not known.
    """
    most = max(4, own, math.ceil(float(psi or 0) * 1.05))
    top = most * 1.04
    curves = tuple(
        Curve(k, _points(k, top), 100 * k * 63 / 64 / top, k == own)
        for k in sorted({2, 3, min(4, most), own})
    )
    ticks = tuple((count, _left(count)) for count in TICKS)
    bottom = None if psi is None else 100 * float(psi) / top
    return Laws(curves, _left(num_ranks), bottom, psi, ticks)


def _left(num_ranks: int) -> float:
    return min(100.0, 100 * math.log2(max(1, num_ranks)) / math.log2(RANKS[-1]))


def _points(payloads: int, top: float) -> str:
    return " ".join(
        f"{_left(n) * WIDTH / 100:.1f},{HEIGHT * (1 - payloads * (n - 1) / n / top):.1f}"
        for n in RANKS
    )
