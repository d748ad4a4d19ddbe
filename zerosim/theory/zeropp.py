"""The size of quantized elements, and the groups of ZeRO++: qwZ, hpZ, qgZ.

A block of elements shares one fp32 scale (symmetric: no zero point). int8 takes a byte per element;
two int4 elements share a byte; with an odd number, the last has its own.

Source: G. Wang et al., "ZeRO++: Extremely Efficient Collective Communication for Giant Model
Training" (arXiv 2306.10209), section 3: 3.1 qwZ, 3.2 hpZ, 3.3 qgZ.
"""

from __future__ import annotations

from fractions import Fraction

from zerosim.theory.partition import padded_elements, shard_elements
from zerosim.theory.workload import Workload

SCALE_BYTES = 4
"""An fp32 scale."""
INT8_BYTES = Fraction(1)
INT4_BYTES = Fraction(1, 2)


def int8_bytes(elements: int, block: int) -> int:
    """Size of int8 elements and their scales."""
    return elements + SCALE_BYTES * -(-elements // block)


def int4_bytes(elements: int, block: int) -> int:
    """Size of int4 elements and their scales."""
    return -(-elements // 2) + SCALE_BYTES * -(-elements // block)


def secondary_elements(workload: Workload, elements: int) -> int:
    """Elements of a unit that each of S ranks keeps for backward, including padding.

    Args:
        elements: of the unit, without padding.
    """
    whole = padded_elements(elements, workload.num_ranks)
    return shard_elements(whole, workload.config.secondary_partition)
