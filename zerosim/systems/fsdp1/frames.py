"""FSDP1: each rank keeps an equal part of each bundle's flat parameter."""

from __future__ import annotations

from zerosim.analysis.frames.cuts import Cutting, NotShown, ParameterInUnit, ProgramUnits
from zerosim.analysis.frames.fully_sharded import fully_sharded
from zerosim.systems.fsdp1 import NAME
from zerosim.theory.programs.options import number

BESIDE = (frozenset[str](),)


def read(made: Cutting) -> ProgramUnits:
    """Each rank keeps an equal part of each bundle's flat parameter, which is one unit."""
    strategy = made.systems[NAME]
    cuts, padded = [], {}
    for bundle in strategy.bundles:
        if len({one.trainable for one in bundle.parameters}) > 1:
            raise NotShown(f"the ranks' parts of {bundle.name} cannot be shown")
        zeros = number(bundle, "padded_elements") - sum(one.elements for one in bundle.parameters)
        last = bundle.parameters[-1]
        padded[last.name] = last.elements + zeros
        cuts += [ParameterInUnit(one, bundle.name) for one in bundle.parameters]
    return fully_sharded(made, strategy, cuts, padded)
