"""The shards of each rank under replication: gradients all-reduced in buckets, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from zerosim.analysis.frames.cuts import Cutting, NotShown
from zerosim.analysis.frames.layout import Division, ShardDuties
from zerosim.schema.manifest import BucketLayout, UnitLayout
from zerosim.schema.strategies import Strategy
from zerosim.theory.programs.options import flag, name_lists, text

EVERYTHING = Division(parameters=False, gradients=False, states=False, calls_within=True)
"""For data parallelism in which each rank keeps everything."""


def reduced_buckets(made: Cutting, strategy: Strategy) -> Iterator[BucketLayout]:
    """The buckets of a reduction, as recorded for DDP.

    Raises:
        NotShown: buckets are decided dynamically, or their result is unknown.
    """
    if flag(strategy, "finds_unused", default=False):
        raise NotShown("the loss determines which parameters get gradients")
    if text(strategy, "comm_hook"):
        hook = text(strategy, "comm_hook")
        raise NotShown(f"the result of DDP's communication hook {hook} is unknown")
    buckets = name_lists(strategy, "bucket_parameters")
    nameless = [names for names in buckets if "" in names]
    if len(nameless) > 1:
        raise NotShown("parameters that DDP reduces have no names in the trace")
    named = {name for names in buckets for name in names}
    for names in nameless:  # sharded by tensor parallelism: in no other bucket
        names.extend(name for name in made.unit_of if name not in named)
    for place, names in enumerate(buckets):
        yield made.bucket(f"bucket {place}", names)


def each_alone(ranks: Iterable[int], units: Sequence[UnitLayout]) -> Division:
    """The shards of ranks that keep everything and do not sum gradients with each other."""
    one = frozenset({0})
    whole = ShardDuties(computes=one, keeps=one, updates=one, makes=one)
    return replace(
        EVERYTHING,
        num_shards=1,
        parts={
            (rank, unit.name): replace(whole, among=frozenset({rank}))
            for rank in ranks
            for unit in units
        },
    )
