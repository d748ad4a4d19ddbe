"""Which rank holds what where each keeps everything: gradients all-reduced in buckets, or alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from zerosim.analysis.frames.cuts import Cutting, NotShown
from zerosim.analysis.frames.layout import Division, ShardDuties
from zerosim.schema.manifest import BucketLayout, UnitLayout
from zerosim.schema.strategies import Strategy
from zerosim.theory.programs.options import flag, name_lists, text

EVERYTHING = Division(parameters=False, gradients=False, states=False, calls_within=True)
"""Of data parallelism that keeps all on each rank."""


def reduced_buckets(made: Cutting, strategy: Strategy) -> Iterator[BucketLayout]:
    """What is reduced together, as DDP tells of its buckets.

    Raises:
        NotShown: that is decided as it goes, or what becomes of it is not known.
    """
    if flag(strategy, "finds_unused", default=False):
        raise NotShown("only the loss decides which parameters have gradients")
    if text(strategy, "comm_hook"):
        hook = text(strategy, "comm_hook")
        raise NotShown(f"what DDP's communication hook {hook} makes of gradients is not known")
    buckets = name_lists(strategy, "bucket_parameters")
    nameless = [names for names in buckets if "" in names]
    if len(nameless) > 1:
        raise NotShown("parameters that DDP reduces have no names in the trace")
    named = {name for names in buckets for name in names}
    for names in nameless:  # what tensor parallel has divided: it is in no other bucket
        names.extend(name for name in made.unit_of if name not in named)
    for place, names in enumerate(buckets):
        yield made.bucket(f"bucket {place}", names)


def each_alone(ranks: Iterable[int], units: Sequence[UnitLayout]) -> Division:
    """Of ranks that keep everything and add up no gradients with each other."""
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
