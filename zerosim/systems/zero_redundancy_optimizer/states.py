"""ZeroRedundancyOptimizer with DDP: each parameter's owner has its optimizer states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from zerosim.systems.ddp import NAME as DDP
from zerosim.systems.ddp import states as replicated
from zerosim.systems.zero_redundancy_optimizer import NAME
from zerosim.theory.programs.divided import Divided, ToldStates, whole
from zerosim.theory.programs.options import number, parameters_of, text
from zerosim.theory.programs.states import AskedStates, KeptParts

BESIDE = (frozenset({DDP}),)


def keeps(asked: AskedStates) -> KeptParts | None:
    """The memory of a rank."""
    found = replicated.keeps(asked)
    return None if found is None else replace(found, name=NAME, parts=list(_of_owners(asked)))


def _of_owners(asked: AskedStates) -> Iterator[Divided]:
    """The states of each parameter are with its owner; those of another optimizer on each rank."""
    redundancy, replicas = asked.own[NAME], asked.own[DDP]
    label = text(replicas, "label")
    owners = {
        parameter.name: number(bundle, "owner")
        for bundle in redundancy.bundles
        for parameter in bundle.parameters
    }
    told = ToldStates(replicas, asked.everywhere)
    for parameter in parameters_of(replicas):
        owner = owners.get(f"{label}: {parameter.name}" if label else parameter.name)
        part = told.of(parameter.name, whole(parameter), parameter.shape)
        if owner is not None:
            part = part.owned(len(redundancy.ranks), is_own=owner == asked.rank)
        yield part
