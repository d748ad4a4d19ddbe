"""ZeroRedundancyOptimizer beside DDP: the optimizer states of each parameter are with its owner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from zerosim.systems.ddp import NAME as DDP
from zerosim.systems.ddp import states as replicated
from zerosim.systems.zero_redundancy import NAME
from zerosim.theory.programs.options import number, parameters_of
from zerosim.theory.programs.states import AskedStates, Divided, KeptParts, whole, with_gradients

BESIDE = (frozenset({DDP}),)


def keeps(asked: AskedStates) -> KeptParts | None:
    """The memory of a rank."""
    found = replicated.keeps(asked)
    return None if found is None else replace(found, name=NAME, parts=list(_of_owners(asked)))


def _of_owners(asked: AskedStates) -> Iterator[Divided]:
    """The states of each parameter are with its owner."""
    redundancy = asked.own[NAME]
    owners = {
        parameter.name: number(bundle, "owner")
        for bundle in redundancy.bundles
        for parameter in bundle.parameters
    }
    replicas = asked.own[DDP]
    for parameter in parameters_of(replicas):
        has = owners.get(parameter.name) == asked.rank
        yield replace(
            with_gradients(replicas, parameter.name, whole(parameter)),
            states_among=len(redundancy.ranks),
            kept_states=None if has else 0,
        )
