"""Whether a reduction is correct: the sum of the ranks' own gradients is the reduced one.

The ranks send their numbers before and after; they are summed here, in double precision. Each rank
may have the whole sum, or its own row of it, and the sum may be a mean.
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
    """The deviation of the reduced gradient from the sum of the ranks' own.

    Attributes:
        elements: number of its elements on each rank.
        largest: the largest difference from the sum; greatest: the largest magnitude in the sum.
        is_mean: whether it was divided by the number of ranks.
    """

    unit: str
    elements: int
    largest: float
    greatest: float
    is_mean: bool


def read_values(answers: Mapping[int, Mapping[str, Any]]) -> dict[int, array[float]]:
    """The ranks' answers to `values`."""
    return {rank: array("f", b64decode(answer["values"])) for rank, answer in answers.items()}


def compare_sums(unit: str, before: Values, after: Values) -> Summed:
    """Compare each rank's result with the sum of all inputs.

    Args:
        before: values of all ranks, with equally many elements.
        after: as many elements, or the rank's own part, in the order of ranks.
    """
    ranks = sorted(before)
    total = [sum(column) for column in zip(*(before[rank] for rank in ranks), strict=True)]
    row = len(total) // len(ranks)
    parts = []
    for place, rank in enumerate(ranks):
        own = after[rank]
        shard = total[place * row : (place + 1) * row]
        # after an in-place reduction a rank has its own row, and leftovers of the others
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
