"""Which rank holds what with local SGD: each has everything, and gradients of its own alone."""

from __future__ import annotations

from local_sgd.system import NAME
from zerosim.analysis.frames.cuts import Cutting, ProgramUnits
from zerosim.analysis.frames.reduced import each_alone
from zerosim.theory.programs.options import parameters_of

BESIDE = (frozenset[str](),)


def read(made: Cutting) -> ProgramUnits:
    """The units of the model; no gradient is reduced."""
    units = made.units(made.cut(parameters_of(made.systems[NAME])), {})
    return made.program(units, (), each_alone(made.held, units))
