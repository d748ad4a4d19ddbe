"""Formulas of what is promised: the numbers of a case, the algorithms of theory, and sums of them.

    ring("reduce-scatter", elements, 4)    what a rank of a ring sends at most, in bytes
    shard(elements)                        elements that a rank keeps, padding included
    log2(ranks)                            rounded up

Imports simpleeval, theory and zerosim's L0.
"""

from __future__ import annotations

from collections.abc import Mapping

from simpleeval import EvalWithCompoundTypes, InvalidExpression

from zerosim.errors import ConfigError
from zerosim.events import Algorithm, Op
from zerosim.theory import cost
from zerosim.theory.partition import shard_elements


def bound(formula: str, ranks: int, sizes: Mapping[str, int]) -> int:
    """The value of a formula.

    Args:
        sizes: what the case says of itself: `elements` and the like.

    Raises:
        ConfigError: it is no formula.
    """

    def ring(op: str, elements: int, element_bytes: int) -> int:
        return max(
            cost(Algorithm.RING, Op(op), ranks, rank, elements, element_bytes).sent_bytes
            for rank in range(ranks)
        )

    functions = {
        "ring": ring,
        "shard": lambda elements: shard_elements(elements, ranks),
        "log2": lambda number: (number - 1).bit_length(),
        "max": max,
        "min": min,
    }
    names = {"ranks": ranks, **sizes}
    try:
        value = EvalWithCompoundTypes(functions=functions, names=names).eval(formula)
    except (InvalidExpression, ValueError, TypeError, ArithmeticError) as error:
        raise ConfigError(f"formula {formula!r}: {error}") from error
    return int(value)
