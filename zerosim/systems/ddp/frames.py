"""DDP: everything is on each rank."""

from __future__ import annotations

from zerosim.analysis.frames.cuts import Cutting, ProgramUnits
from zerosim.analysis.frames.reduced import EVERYTHING, reduced_buckets
from zerosim.analysis.frames.seats import divided, seats_of
from zerosim.systems.ddp import NAME
from zerosim.theory.programs.options import parameters_of

BESIDE = (frozenset[str](),)


def read(made: Cutting) -> ProgramUnits:
    """Everything is whole, and each bucket is all-reduced."""
    strategy = made.systems[NAME]
    units = made.units(made.cut(parameters_of(strategy)), {})
    division = divided(made, EVERYTHING, seats_of(made))
    return made.program(units, reduced_buckets(made, strategy), division)
