"""Shards of ranks that compute layers together: tensor parallel, alone or with DDP.

Each rank keeps a column-wise or row-wise shard of a matrix, and all replicated parameters. Source:
M. Shoeybi et al., "Megatron-LM" (arXiv 1909.08053), section 3.
"""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.analysis.frames.cuts import WHOLE, Cutting, NotShown, ProgramUnits, parameters_in
from zerosim.analysis.frames.reduced import EVERYTHING, reduced_buckets
from zerosim.analysis.frames.seats import divided, seats_of, sorts_of
from zerosim.schema.strategies import Parameter, Strategy
from zerosim.systems.ddp import NAME as DDP
from zerosim.systems.tensor_parallel import NAME
from zerosim.theory.programs.options import number_map

BESIDE = (frozenset[str](), frozenset({DDP}))
_UNDIVIDED = "not divided"
"""The name of parameters that a trace counts, but does not name."""


def read(made: Cutting) -> ProgramUnits:
    """The shards of the parameters; with DDP, each rank's own are also reduced."""
    strategy = made.systems[NAME]
    parameters = parameters_in(strategy.bundles)
    if DDP in made.systems:
        known = {one.name for one in parameters}
        beside = parameters_in(made.systems[DDP].bundles)
        parameters += [one for one in beside if one.name not in known]
    else:
        parameters += _undivided(strategy)
    cuts, sorts = made.cut(parameters), sorts_of(strategy)
    for one in cuts:
        one.sort = sorts.get(one.parameter.name, WHOLE)
    units = made.units(cuts, {})
    division = divided(made, EVERYTHING, seats_of(made))
    buckets = reduced_buckets(made, made.systems[DDP]) if DDP in made.systems else ()
    return made.program(units, buckets, division)


def _undivided(strategy: Strategy) -> Iterator[Parameter]:
    """The replicated parameters, all of a dtype as one.

    Raises:
        NotShown: an older trace does not have their number.
    """
    if "undivided" not in strategy.options:
        raise NotShown("the trace does not say how many parameters tensor parallelism leaves whole")
    for option, trains in (("undivided", True), ("undivided_frozen", False)):
        for dtype, elements in number_map(strategy, option).items():
            yield Parameter(name=_UNDIVIDED, shape=(elements,), dtype=dtype, trainable=trains)
