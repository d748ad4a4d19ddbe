"""FSDP2: rows of each parameter on the ranks that share it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from zerosim.base.errors import ConfigError
from zerosim.schema.strategies import Strategy
from zerosim.systems.fsdp2 import NAME
from zerosim.theory.causes import Cause
from zerosim.theory.programs.divided import Divided, ToldStates, undivided, whole
from zerosim.theory.programs.fully_sharded import name_of_shards
from zerosim.theory.programs.options import flag, numbers
from zerosim.theory.programs.states import AskedStates, KeptParts

BESIDE = (frozenset[str](),)


def keeps(asked: AskedStates) -> KeptParts | None:
    """The memory of a rank; None for a strategy without parameters."""
    strategy = asked.own[NAME]
    told = ToldStates(strategy)
    found = list(_rows(strategy, asked.rank, told))
    among = max((part.among for part in found), default=1)
    found += [
        replace(told.of(one.name, whole(one)), among=among, cause=Cause.REPLICATED)
        for one in undivided(strategy)
    ]
    if not found:
        return None
    return KeptParts(
        name=name_of_shards(strategy),
        parts=found,
        updates_in_backward=flag(strategy, "used_at_once", default=False),
    )


def _rows(strategy: Strategy, rank: int, told: ToldStates) -> Iterator[Divided]:
    """Storages of parameters and gradients are padded; states have the actual rows."""
    for bundle in strategy.bundles:
        ranks = numbers(bundle, "shard_ranks") or [rank]
        place = ranks.index(rank) if rank in ranks else 0
        dims = numbers(bundle, "shard_dims")
        shapes = [one.shape for one in bundle.parameters]
        if len(dims) != len(shapes) or not all(
            -len(shape) <= dim < max(1, len(shape)) for shape, dim in zip(shapes, dims, strict=True)
        ):
            raise ConfigError(
                f"option 'shard_dims' of {bundle.name!r} is {dims}: expected a dim of each of its "
                f"{len(shapes)} parameters"
            )
        for parameter, dim in zip(bundle.parameters, dims, strict=True):
            length = parameter.shape[dim] if parameter.shape else 1
            row = parameter.elements // length if length else 0
            chunk = -(-length // len(ranks))
            own = max(0, min(chunk, length - place * chunk))
            part = replace(
                whole(parameter),
                kept=chunk * row,
                kept_states=own * row if parameter.trainable else 0,
                among=len(ranks),
                cause=Cause.PADDING,
            )
            yield told.of(parameter.name, part, parameter.shape)
