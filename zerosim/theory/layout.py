"""How a training is divided among GPUs: stage and options, tensor x pipeline x data parallel.

A layout is what a plan chooses; all that theory says of it follows from there: which units a rank
has, what it keeps of them, and what it moves. Ranks that compute a block together are neighbours,
those that the states are divided among come next, stages of a pipeline are furthest apart
(Narayanan et al. 2021, arXiv 2104.04473, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from zerosim.base.config import CollectivesKind, EngineConfig
from zerosim.base.config.shapes import Transformer
from zerosim.base.errors import ConfigError
from zerosim.theory.partition import UnitSize
from zerosim.theory.saved import ALL, Keeping, Recompute
from zerosim.theory.transformer import (
    BLOCK,
    EMBEDDING,
    HEAD,
    ROOT,
    WHOLE,
    Computing,
    Cut,
    Piece,
    pieces,
)
from zerosim.theory.workload import Workload

FIRST, LAST = "first", "last"
"""Stages of a pipeline; of one stage, both are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One way to divide a training.

    Attributes:
        shape: of the model.
        config: stage, accumulation, buckets, ZeRO++, offload, checkpoints.
        data: N, ranks that the states are divided among.
        cut: T, tensor parallel ranks, and what of the rest they cut.
        pipeline: p, stages of blocks.
        batch: b, sequences of a micro-batch.
        sequence: s, tokens of each.
        ranks_per_node: of all ranks; 0 for one node.
        keeping: what forward keeps for backward.

    Raises:
        ConfigError: the ranks cannot divide the model in this way.
    """

    shape: Transformer
    config: EngineConfig
    data: int
    cut: Cut = WHOLE
    pipeline: int = 1
    batch: int = 1
    sequence: int
    ranks_per_node: int = 0
    keeping: Keeping = ALL

    def __post_init__(self) -> None:
        if self.pipeline < 1 or self.shape.layers % self.pipeline:
            raise ConfigError(
                f"pipeline parallel is {self.pipeline}: expected a divisor of the "
                f"{self.shape.layers} layers"
            )
        if self.pipeline > 1 and self.config.stage > 1:
            raise ConfigError(
                f"stage is {self.config.stage} with a pipeline of {self.pipeline}: expected 0 or "
                "1, because stages 2 and 3 would reduce and gather for every micro-batch"
            )

    @property
    def num_ranks(self) -> int:
        """N T p."""
        return self.data * self.cut.tensor * self.pipeline

    @property
    def micro_batches(self) -> int:
        """m: of one optimizer step."""
        return self.config.accumulate

    @property
    def sequences(self) -> int:
        """Of all ranks in one optimizer step."""
        return self.data * self.batch * self.micro_batches

    @property
    def tokens(self) -> int:
        """Of all ranks in one optimizer step."""
        return self.sequences * self.sequence

    @property
    def recompute(self) -> Recompute:
        """What backward computes again."""
        return self.keeping.recompute

    @property
    def computing(self) -> Computing:
        """What one micro-batch asks of operators."""
        return Computing(
            self.shape, self.batch, self.sequence, self.cut, self.config.dtype.element_bytes
        )

    def pieces(self, place: str = LAST) -> tuple[Piece, ...]:
        """The units of one stage of the pipeline, on one rank."""
        return _pieces(self.shape, self.cut, self.pipeline, place)

    def workload(self, place: str = LAST) -> Workload:
        """The same with one unit of each kind: what theory says of units, a unit at a time."""
        units = _one_of_each(self.pieces(place))
        return _workload(self._engine(), self.data, self.cut.tensor, self._node(), units)

    def few_blocks(self, place: str = LAST) -> Workload:
        """Likewise with as many blocks as can be there at once."""
        most = self.config.prefetch + 2
        units = tuple(
            UnitSize(f"{one.name}.{number}" if one.name == BLOCK else one.name, one.elements)
            for one in self.pieces(place)
            for number in range(min(one.times, most))
        )
        return _workload(self._engine(), self.data, self.cut.tensor, self._node(), units)

    def _node(self) -> int:
        return min(self.ranks_per_node or self.num_ranks, self.data * self.cut.tensor)

    def _engine(self) -> EngineConfig:
        """Of it, what decides what is kept and moved of one unit."""
        return _engine(self.config)


@lru_cache(maxsize=4096)
def _engine(config: EngineConfig) -> EngineConfig:
    return replace(
        config, accumulate=1, ranks_per_node=0, bucket_elements=None, constant_buffers=False
    )


class _OneOfEach(Workload):
    """A workload that is made once, so it is the same as no other: it is looked up many times."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@lru_cache(maxsize=4096)
def _workload(
    config: EngineConfig, data: int, tensor: int, node: int, units: tuple[UnitSize, ...]
) -> Workload:
    return _OneOfEach(
        config=config,
        num_ranks=data,
        units=units,
        tensor_parallel=tensor,
        ranks_per_node=node,
        averages_loss=True,
    )


@lru_cache(maxsize=1024)
def _one_of_each(found: tuple[Piece, ...]) -> tuple[UnitSize, ...]:
    return tuple(UnitSize(one.name, one.elements) for one in found)


@lru_cache(maxsize=1024)
def _pieces(shape: Transformer, cut: Cut, pipeline: int, place: str) -> tuple[Piece, ...]:
    """A tied table is on both ends of a pipeline."""
    own = (EMBEDDING, HEAD) if pipeline == 1 else ({FIRST: EMBEDDING, LAST: HEAD}[place],)
    return tuple(
        replace(one, times=shape.layers // pipeline) if one.name == BLOCK else one
        for one in pieces(shape, cut)
        if one.name == BLOCK or one.name in (ROOT, *own)
    )


def native(config: EngineConfig) -> EngineConfig:
    """With the backend's own collectives where they can carry it out."""
    if config.quantizes:
        return config
    return replace(config, collectives=CollectivesKind.NATIVE)
