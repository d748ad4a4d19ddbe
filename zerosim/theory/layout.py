"""How training is divided among GPUs: stage and options, tensor x pipeline x data parallel.

A layout is the choice of a plan; theory derives everything from it: the units of a rank, its
memory, and its traffic. Ranks that compute a block together are neighbours, followed by those that
share the states; stages of a pipeline are furthest apart (Narayanan et al. 2021, arXiv 2104.04473,
section 3).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache

from zerosim.base.config import CollectivesKind, EngineConfig
from zerosim.base.config.shapes import Transformer
from zerosim.base.errors import ConfigError
from zerosim.theory.operators import Computing
from zerosim.theory.partition import UnitSize
from zerosim.theory.saved import ALL, KeptActivations, Recompute
from zerosim.theory.transformer import (
    BLOCK,
    BLOCKS,
    EMBEDDING,
    HEAD,
    OTHER,
    ROOT,
    WHOLE,
    AlikeUnits,
    LayerCut,
    pieces,
)
from zerosim.theory.workload import Workload

FIRST, MIDDLE, LAST = "first", "middle", "last"
"""The places of a pipeline's stages; with a single stage, all three are the same."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """One way to divide training.

    Attributes:
        shape: shape of the model.
        config: stage, accumulation, buckets, ZeRO++, offload, checkpoints.
        data: N, ranks that share the states.
        cut: T, tensor-parallel ranks, and the other tensors that they share.
        pipeline: p, stages of blocks.
        batch: b, sequences of a micro-batch.
        sequence: s, tokens of a sequence.
        ranks_per_node: ranks per node, of all ranks; 0 for one node.
        keeping: the activations that forward keeps for backward.
        chunks: v, model chunks per stage (interleaved schedule).
        zero_bubble: whether weight gradients are delayed to times when a rank would be idle
            (ZB-H1).
        float8: whether blocks compute matrix products in 8 bits; states and communication do not.
        replicas: groups of data-parallel ranks, each with a full copy of the states (HSDP).

    Raises:
        ConfigError: the ranks cannot divide the model in this way.
    """

    shape: Transformer
    config: EngineConfig
    data: int
    cut: LayerCut = WHOLE
    pipeline: int = 1
    batch: int = 1
    sequence: int
    ranks_per_node: int = 0
    keeping: KeptActivations = ALL
    chunks: int = 1
    zero_bubble: bool = False
    replicas: int = 1
    float8: bool = False

    def __post_init__(self) -> None:
        layers = self.shape.layers
        if not 1 <= self.pipeline <= layers:
            raise ConfigError(
                f"pipeline parallel is {self.pipeline}: expected 1 to the {layers} layers"
            )
        if self.chunks < 1 or (
            self.chunks > 1 and self.pipeline * self.chunks > layers + self.pipeline
        ):
            raise ConfigError(
                f"interleaved chunks are {self.chunks}: expected 1 to {layers // self.pipeline}, "
                "the layers of a stage"
            )
        if self.chunks > 1 and (self.pipeline == 1 or self.micro_batches % self.pipeline):
            raise ConfigError(
                f"interleaved chunks are {self.chunks}: expected a pipeline, and micro-batches in "
                f"a multiple of its {self.pipeline} stages, not {self.micro_batches}"
            )
        if self.chunks > 1 and self.zero_bubble:
            raise ConfigError("zero bubble and interleaved chunks: expected one of the two")
        for what, number in (
            ("context parallel", self.cut.context),
            ("expert parallel", self.cut.experts),
            ("HSDP's replicas", self.replicas),
        ):
            if number < 1 or self.data % number:
                raise ConfigError(
                    f"{what} is {number}: expected a divisor of the {self.data} data parallel ranks"
                )
        self._require_experts()
        if self.sequence % self.cut.context:
            raise ConfigError(
                f"context parallel is {self.cut.context}: expected a divisor of the "
                f"{self.sequence} tokens of a sequence"
            )
        if self.replicas > 1 and not self.config.stage:
            raise ConfigError("HSDP's replicas: expected stage 1, 2 or 3, which partition states")
        if self.pipeline > 1 and self.config.stage > 1:
            raise ConfigError(
                f"stage is {self.config.stage} with a pipeline of {self.pipeline}: expected 0 or "
                "1, because stages 2 and 3 would reduce and gather for every micro-batch"
            )

    def _require_experts(self) -> None:
        for block in self.shape.blocks:
            if block.experts and block.experts.count % self.cut.experts:
                raise ConfigError(
                    f"expert parallel is {self.cut.experts}: expected a divisor of the "
                    f"{block.experts.count} experts"
                )
        if self.cut.experts > 1 and not any(one.experts for one in self.shape.blocks):
            raise ConfigError(f"expert parallel is {self.cut.experts}: the model has no experts")
        if self.cut.experts > 1 and self.replicas > 1:
            raise ConfigError("expert parallel and HSDP's replicas: expected one of the two")

    @property
    def num_ranks(self) -> int:
        """N T p."""
        return self.data * self.cut.tensor * self.pipeline

    @property
    def micro_batches(self) -> int:
        """m: micro-batches of one optimizer step."""
        return self.config.accumulate

    @property
    def sequences(self) -> int:
        """Sequences of all ranks in one optimizer step."""
        return self.data // self.cut.context * self.batch * self.micro_batches

    @property
    def shards(self) -> int:
        """Ranks among which the states are divided: N, or N/R with R replicas."""
        return self.data // self.replicas

    def blocks_of(self, place: str) -> int:
        """Layers of a stage; if they do not divide evenly, the last stage has the fewest."""
        share, left = divmod(self.shape.layers, self.pipeline)
        return share + (1 if left and place != LAST else 0)

    @property
    def tokens(self) -> int:
        """Tokens of all ranks in one optimizer step."""
        return self.sequences * self.sequence

    @property
    def recompute(self) -> Recompute:
        """The part that backward recomputes."""
        return self.keeping.recompute

    @cached_property
    def computing(self) -> Computing:
        """The operators of one micro-batch."""
        return _computing(
            self.shape,
            self.batch,
            self.sequence,
            self.cut,
            self.config.dtype.element_bytes,
            self.keeping.has_scores,
            self.keeping.has_dropout,
            self.float8,
        )

    def pieces(self, place: str = LAST) -> tuple[AlikeUnits, ...]:
        """The units of one stage of the pipeline, on one rank."""
        found = self._pieces.get(place)
        if found is None:
            found = _pieces(self.shape, self.cut, self.pipeline, place, self.blocks_of(place))
            self._pieces[place] = found
        return found

    @cached_property
    def _pieces(self) -> dict[str, tuple[AlikeUnits, ...]]:
        return {}

    def workload(self, place: str = LAST) -> Workload:
        """The same with one unit of each kind, for theory that treats units one at a time."""
        found = self._workloads.get(place)
        if found is None:
            units = _one_of_each(self.pieces(place))
            found = _workload(self._engine, self.shards, self.cut.tensor, self._node(), units)
            self._workloads[place] = found
        return found

    @cached_property
    def _workloads(self) -> dict[str, Workload]:
        return {}

    def experts(self, place: str = LAST) -> Workload | None:
        """The same for the experts under expert parallelism, which fewer ranks replicate."""
        units = _experts_of(self.pieces(place))
        if not units:
            return None
        data = self.data // self.cut.experts
        config = _without_secondary(self._engine)
        # ranks with the same experts are T * EP apart
        together = self.cut.tensor * self.cut.experts
        node = min(self.ranks_per_node or self.num_ranks, data * together)
        if node % together and together % node:
            node = together
        return _workload(config, data, together, max(node, together), units)

    def _node(self) -> int:
        return min(self.ranks_per_node or self.num_ranks, self.shards * self.cut.tensor)

    @cached_property
    def _engine(self) -> EngineConfig:
        """The parts of the configuration that determine memory and traffic of one unit."""
        return _engine(self.config)


class _MadeOnce(Computing):
    """Operators that are created once per key and compared by identity, like `_OneOfEach`."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


_computing = lru_cache(maxsize=4096)(_MadeOnce)


class _MadeOnceEngine(EngineConfig):
    """A configuration that is created once and often used as a key, like `_OneOfEach`."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@lru_cache(maxsize=4096)
def _engine(config: EngineConfig) -> EngineConfig:
    found = replace(
        config, accumulate=1, ranks_per_node=0, bucket_elements=None, constant_buffers=False
    )
    return _of_units(found)


@lru_cache(maxsize=1024)
def _of_units(config: EngineConfig) -> EngineConfig:
    return _MadeOnceEngine(**{one.name: getattr(config, one.name) for one in fields(config)})


@lru_cache(maxsize=1024)
def _without_secondary(config: EngineConfig) -> EngineConfig:
    return replace(config, secondary_partition=1)


class _OneOfEach(Workload):
    """A workload that is created once and often used as a key, compared by identity."""

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


class _MadeOncePieces(tuple[AlikeUnits, ...]):
    """Units of a stage, which are created once and often used as a key, like `_OneOfEach`."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@lru_cache(maxsize=1024)
def _one_of_each(found: tuple[AlikeUnits, ...]) -> tuple[UnitSize, ...]:
    return tuple(UnitSize(one.name, one.elements) for one in found)


@lru_cache(maxsize=1024)
def _experts_of(found: tuple[AlikeUnits, ...]) -> tuple[UnitSize, ...]:
    return tuple(UnitSize(one.name, one.experts) for one in found if one.experts)


@lru_cache(maxsize=1024)
def _pieces(
    shape: Transformer, cut: LayerCut, pipeline: int, place: str, layers: int
) -> tuple[AlikeUnits, ...]:
    """A tied embedding is on both end stages, and the rarer kind of block comes first."""
    own = {FIRST: (ROOT, EMBEDDING), MIDDLE: (), LAST: (ROOT, HEAD)}[place]
    if pipeline == 1:
        own = (ROOT, EMBEDDING, HEAD)
    found = pieces(shape, cut)
    others = next((one.times for one in found if one.name == OTHER), 0)
    if pipeline > 1:
        others = min(others, layers - 1) if place == FIRST else 0
    times = {OTHER: others, BLOCK: layers - others}
    return _MadeOncePieces(
        replace(one, times=times.get(one.name, 1))
        for one in found
        if one.name in own or times.get(one.name)
    )


def few_blocks(workload: Workload, found: tuple[AlikeUnits, ...]) -> Workload:
    """A workload with these units and as many blocks as can be live at once."""
    most = workload.config.prefetch + 2
    units = tuple(
        UnitSize(
            f"{one.name}.{number}" if one.name in BLOCKS else one.name, one.elements + one.experts
        )
        for one in found
        for number in range(min(one.times, most))
    )
    of = (workload.config, workload.num_ranks, workload.tensor_parallel, workload.ranks_per_node)
    return _workload(*of, units)


def native(config: EngineConfig) -> EngineConfig:
    """The configuration with the backend's native collectives where available."""
    if config.quantizes:
        return config
    return replace(config, collectives=CollectivesKind.NATIVE)
