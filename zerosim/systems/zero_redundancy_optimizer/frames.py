"""ZeroRedundancyOptimizer with DDP: each parameter's owner has its optimizer states."""

from __future__ import annotations

from dataclasses import replace

from zerosim.analysis.frames.cuts import Cutting, NotShown, ProgramUnits, in_turn, parameters_in
from zerosim.analysis.frames.reduced import EVERYTHING, reduced_buckets
from zerosim.analysis.frames.seats import require_seats_of_all
from zerosim.systems.ddp import NAME as DDP
from zerosim.systems.zero_redundancy_optimizer import NAME
from zerosim.theory.programs.options import flag, number, parameters_of

BESIDE = (frozenset({DDP}),)


def read(made: Cutting) -> ProgramUnits:
    """Each parameter's owner has its optimizer states and broadcasts it."""
    require_seats_of_all(made)
    strategy = made.systems[NAME]
    owners = {
        one.name: number(bundle, "owner")
        for bundle in strategy.bundles
        for one in bundle.parameters
    }
    cuts = made.cut(parameters_of(made.systems[DDP]))
    for one in cuts:
        one.owner = owners.get(one.parameter.name)
    units = made.units(cuts, {})
    if flag(strategy, "bucket_view", default=False) or flag(
        strategy, "overlap_with_ddp", default=False
    ):
        raise NotShown(
            "the trace does not record which parameters ZeroRedundancyOptimizer sends in one call"
        )
    every = parameters_in(strategy.bundles)
    sent = [made.unit_of[one.name] for one in every if one.name in made.unit_of]
    division = replace(
        EVERYTHING,
        states=True,
        owners={made.unit_of[name]: rank for name, rank in owners.items() if name in made.unit_of},
    )
    return made.program(
        units, reduced_buckets(made, made.systems[DDP]), division, {"": in_turn(sent)}
    )
