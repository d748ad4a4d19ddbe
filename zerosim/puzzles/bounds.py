"""Formulas of a promise: the numbers of a case, the algorithms of theory, and sums of them.

ring("reduce-scatter", elements, 4)    maximum bytes that a rank of a ring sends
ring("all-gather", elements, 4, node)  the same for a ring of fewer ranks
shard(elements)                        elements that a rank keeps, including padding
turns(micros)                          turns of a pipeline, including its bubble: a forward or a
                                       backward of a micro-batch on a stage is one turn
log2(ranks)                            rounded up
rank                                   the rank of the bound, if it depends on the rank
"""

from __future__ import annotations

from collections.abc import Mapping

from simpleeval import EvalWithCompoundTypes, InvalidExpression

from zerosim.base.errors import ConfigError
from zerosim.schema.events import Algorithm, Op
from zerosim.theory import cost
from zerosim.theory.partition import shard_elements
from zerosim.theory.programs.plan import Bubble


def bound(formula: str, ranks: int, sizes: Mapping[str, int], rank: int = 0) -> int:
    """The value of a formula.

    Args:
        rank: the rank of the bound.
        sizes: the case's own sizes: `elements` and others.

    Raises:
        ConfigError: it is not a formula.
    """

    def ring(op: str, elements: int, element_bytes: int, num_ranks: int = ranks) -> int:
        return max(
            cost(Algorithm.RING, Op(op), num_ranks, one, elements, element_bytes).sent_bytes
            for one in range(num_ranks)
        )

    def turns(micros: int) -> int:
        bubble = Bubble(num_ranks=ranks, num_microbatches=micros, stages_a_rank=1)
        return int(2 * micros * (1 + bubble.of_ideal))

    functions = {
        "ring": ring,
        "turns": turns,
        "shard": lambda elements: shard_elements(elements, ranks),
        "log2": lambda number: (number - 1).bit_length(),
        "max": max,
        "min": min,
    }
    names = {"ranks": ranks, "rank": rank, **sizes}
    try:
        value = EvalWithCompoundTypes(functions=functions, names=names).eval(formula)
    except (InvalidExpression, ValueError, TypeError, ArithmeticError) as error:
        raise ConfigError(f"formula {formula!r}: {error}") from error
    return int(value)
