"""FSDP1: flat parameters in equal rows, padded."""

from __future__ import annotations

from dataclasses import replace

from zerosim.schema.strategies import Bundle
from zerosim.systems.fsdp1 import NAME
from zerosim.theory.causes import Cause
from zerosim.theory.model_states import FP32_BYTES
from zerosim.theory.programs.divided import Divided, ToldStates, together, whole
from zerosim.theory.programs.fully_sharded import name_of_shards
from zerosim.theory.programs.options import flag, number, numbers, text
from zerosim.theory.programs.plan import element_bytes_of
from zerosim.theory.programs.states import AskedStates, KeptParts

BESIDE = (frozenset[str](),)
_ALIGNMENT_BYTES = 16
"""Alignment of each original parameter in a flat one, in the gathered dtype.
"""


def keeps(asked: AskedStates) -> KeptParts | None:
    """The memory of a rank; None for a strategy without parameters."""
    strategy = asked.own[NAME]
    told = ToldStates(strategy, asked.everywhere)  # of parameters without a part here
    found = [_flat(bundle, asked.rank, told) for bundle in strategy.bundles]
    return KeptParts(name=name_of_shards(strategy), parts=found) if found else None


def _flat(bundle: Bundle, rank: int, told: ToldStates) -> Divided:
    """A row of the flat parameter; states of original parameters have the size of their part in
    it.
    """
    ranks = numbers(bundle, "shard_ranks") or [rank]
    size = element_bytes_of(bundle.parameters[0].dtype) if bundle.parameters else FP32_BYTES
    row = number(bundle, "padded_elements") // len(ranks)
    trainable = sum(one.elements for one in bundle.parameters if one.trainable)
    part = Divided(
        elements=sum(one.elements for one in bundle.parameters),
        trainable=trainable,
        size=size,
        kept=row,
        kept_states=row if trainable else 0,
        among=len(ranks),
        cause=Cause.PADDING,
    )
    if not flag(bundle, "use_orig_params", default=False):
        return told.of(bundle.name, part)
    states: list[Divided] = []
    begin, place = row * (ranks.index(rank) if rank in ranks else 0), 0
    wide = element_bytes_of(text(bundle, "parameter_dtype") or bundle.parameters[0].dtype)
    for one in bundle.parameters:
        end = place + one.elements
        if one.trainable:
            own = max(0, min(end, begin + row) - max(place, begin))
            states.append(told.of(one.name, replace(whole(one), kept_states=own)))
        aligned = max(1, _ALIGNMENT_BYTES // wide)
        place = -(-end // aligned) * aligned
    return replace(
        told.of(bundle.name, part),
        kept_states=sum(one.kept_states or 0 for one in states),
        states=together(states),
    )
