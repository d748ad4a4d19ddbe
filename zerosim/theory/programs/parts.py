"""The local part of parameters on a rank, if single parameters are sharded before other systems.

Source: M. Shoeybi et al., "Megatron-LM" (arXiv 1909.08053), section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zerosim.schema.strategies import Bundle, Parameter, Strategy
from zerosim.theory.programs.options import shapes, text

BSH = "b·s·h"
"""The activations of one micro-batch at one boundary."""


def local_parameters(
    parameters: Sequence[Parameter], strategies: Sequence[Strategy]
) -> tuple[Parameter, ...]:
    """The local parts of parameters on a rank under tensor parallelism.

    Args:
        strategies: those of tensor parallel in force on the rank.
    """
    divided: dict[tuple[str, tuple[int, ...]], tuple[Bundle, int]] = {}
    for strategy in strategies:
        for bundle in strategy.bundles:
            for one in bundle.parameters:
                divided[one.name, one.shape] = (bundle, len(strategy.ranks))
    # DDP works on local parts, and records that size itself
    return tuple(
        _local(one, *divided[one.name, one.shape]) if (one.name, one.shape) in divided else one
        for one in parameters
    )


def _local(parameter: Parameter, bundle: Bundle, num_ranks: int) -> Parameter:
    style, shape = text(bundle, "style"), parameter.shape
    out = shape_of(bundle, "output_shape")
    is_lookup = len(shape_of(bundle, "input_shape")) < len(out)
    if style not in ("column", "row") or not shape or (style == "row" and len(shape) == 1):
        return parameter
    # a linear module's weight is (out, in), an embedding's (tokens, out)
    dim = 0 if (style == "column") != is_lookup or len(shape) == 1 else len(shape) - 1
    size = -(-shape[dim] // num_ranks)
    return replace(parameter, shape=(*shape[:dim], size, *shape[dim + 1 :]))


def shape_of(bundle: Bundle, key: str) -> tuple[int, ...]:
    """A shape in a bundle's options, the first of several."""
    found = bundle.options.get(key) or ()
    if isinstance(found, list | tuple) and found and isinstance(found[0], list | tuple):
        return shapes(bundle, key)[0]
    return tuple(int(size) for size in found) if isinstance(found, list | tuple) else ()
