"""Whether a reduction did what it is for: the ranks' own gradients, added up, are the reduced one.

The ranks tell their numbers before and after; they are added here, in double precision. Each rank
may have all of the sum, or its own row of it, and the sum may be a mean.
"""

from __future__ import annotations

from array import array
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Values = Mapping[int, Sequence[float]]
"""Numbers by rank."""


@dataclass(frozen=True, slots=True)
class Summed:
    """How far the reduced gradient is from the sum of the ranks' own.

    Attributes:
        elements: that each rank had of it.
        largest: difference to the sum; greatest: magnitude in the sum.
        is_mean: it was divided by the number of ranks.
    """

    unit: str
    elements: int
    largest: float
    greatest: float
    is_mean: bool


def read_values(answers: Mapping[int, Mapping[str, Any]]) -> dict[int, array[float]]:
    """What ranks answered to `values`."""
    return {rank: array("f", b64decode(answer["values"])) for rank, answer in answers.items()}


def compare_sums(unit: str, before: Values, after: Values) -> Summed:
    """Hold what each rank has now against the sum of what all had.

    Args:
        before: of all ranks, the same number of elements.
        after: as many, or the part that belongs to the rank, in the order of ranks.
    """
    ranks = sorted(before)
    total = [sum(column) for column in zip(*(before[rank] for rank in ranks), strict=True)]
    row = len(total) // len(ranks)
    parts = []
    for place, rank in enumerate(ranks):
        own = after[rank]
        shard = total[place * row : (place + 1) * row]
        # of what is reduced in place a rank has its own row, and what is left of the others'
        part = own if len(own) == row else own[place * row : (place + 1) * row]
        parts.append((part, shard))
    by_scale = {scale: _largest(parts, scale) for scale in (1.0, 1.0 / len(ranks))}
    scale = min(by_scale, key=by_scale.__getitem__)
    return Summed(
        unit=unit,
        elements=row,
        largest=by_scale[scale],
        greatest=max((abs(value) * scale for value in total), default=0.0),
        is_mean=scale != 1.0,
    )


def _largest(parts: Sequence[tuple[Sequence[float], Sequence[float]]], scale: float) -> float:
    differences = [
        abs(one - scale * other)
        for own, summed in parts
        for one, other in zip(own, summed, strict=True)
    ]
    return max(differences, default=0.0)
