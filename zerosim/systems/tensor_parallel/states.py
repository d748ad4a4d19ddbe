"""Tensor parallel: parts of the divided matrices, and all other parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from zerosim.base.language import term
from zerosim.schema.strategies import Strategy
from zerosim.systems.tensor_parallel import NAME
from zerosim.theory.causes import Cause
from zerosim.theory.programs.divided import Divided, ToldStates, undivided, whole
from zerosim.theory.programs.options import parameters_of, texts
from zerosim.theory.programs.parts import local_parameters
from zerosim.theory.programs.states import AskedStates, KeptParts

BESIDE = (frozenset[str](),)


def keeps(asked: AskedStates) -> KeptParts | None:
    """The memory of a rank; None if an older trace lacks the replicated parameters."""
    strategy = asked.own[NAME]
    if "undivided" not in strategy.options:
        return None
    return KeptParts(name=term(NAME), parts=list(_of_layers(strategy)))


def _of_layers(strategy: Strategy) -> Iterator[Divided]:
    """The shard of each matrix, and all replicated parameters."""
    among, told = len(strategy.ranks), ToldStates(strategy)
    every = [*parameters_of(strategy), *undivided(strategy)]
    gradients = set(texts(strategy, "whole_gradients"))
    for parameter, local in zip(every, local_parameters(every, [strategy]), strict=True):
        part, has_whole_gradient = whole(parameter), parameter.name in gradients
        is_replicated = local.elements == parameter.elements or has_whole_gradient
        part = replace(
            part,
            kept=local.elements,
            kept_gradients=part.trainable if has_whole_gradient else None,
            among=among,
            cause=Cause.REPLICATED if is_replicated else Cause.UNEQUAL_PARTS,
        )
        yield told.of(parameter.name, part)
