"""FSDP2: each rank keeps the same rows of every parameter, or of its tensor-parallel shard."""

from __future__ import annotations

from zerosim.analysis.frames.cuts import (
    WHOLE,
    Cutting,
    NotShown,
    ProgramUnits,
    along,
    parameters_in,
)
from zerosim.analysis.frames.fully_sharded import fully_sharded
from zerosim.analysis.frames.seats import seats_of, sorts_of
from zerosim.schema.strategies import Parameter
from zerosim.systems.fsdp2 import NAME
from zerosim.systems.registry import Axis
from zerosim.systems.tensor_parallel import NAME as TENSOR_PARALLEL
from zerosim.theory.programs.options import numbers
from zerosim.theory.programs.parts import local_parameters

BESIDE = (frozenset[str](), frozenset({TENSOR_PARALLEL}))


def read(made: Cutting) -> ProgramUnits:
    """Each rank keeps the same rows of every parameter; bundles are gathered together.

    With tensor parallelism, these are rows of its tensor-parallel shard.
    """
    strategy = made.systems[NAME]
    if strategy.options.get("undivided") or strategy.options.get("undivided_frozen"):
        raise NotShown("the trace has no names of the parameters that FSDP2 does not shard")
    seat = next(iter(seats_of(made).values()))
    tensor = along(made.systems, Axis.TENSOR)
    sorts = sorts_of(tensor[0]) if tensor else {}
    other = WHOLE if tensor else ""
    cuts, padded = made.cut(parameters_in(strategy.bundles)), {}
    for bundle in strategy.bundles:
        dims = numbers(bundle, "shard_dims")
        if len(dims) != len(bundle.parameters):
            raise NotShown(
                f"the trace does not say along which dim the parameters of "
                f"{bundle.name} are sharded"
            )
        local = local_parameters(bundle.parameters, tensor)
        for one, part, dim in zip(bundle.parameters, local, dims, strict=True):
            count = len(seat.columns) if part != one else 1
            padded[one.name] = count * _padded(part, dim, seat.num_rows)
    for cut in cuts:
        cut.sort = sorts.get(cut.parameter.name, other)
    return fully_sharded(made, strategy, cuts, padded)


def _padded(parameter: Parameter, dim: int, num_rows: int) -> int:
    """Elements on all ranks: each has the same number of rows, the last ones padded with zeros."""
    length = parameter.shape[dim] if parameter.shape else 1
    rows = -(-length // num_rows)
    return num_rows * rows * (parameter.elements // length) if length else 0
