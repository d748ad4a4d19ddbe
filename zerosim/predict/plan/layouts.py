"""The candidate layouts of a question: all combinations of its free choices that can be run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import product
from math import gcd
from typing import Any

from zerosim.base.config import STAGES, EngineConfig, Offload
from zerosim.base.tiers import Link
from zerosim.predict.plan.question import PlanQuestion
from zerosim.theory.layout import Layout, native
from zerosim.theory.saved import KeptActivations, Recompute
from zerosim.theory.transformer import LayerCut

LARGEST_BATCH = 16
"""Candidate numbers of sequences of a micro-batch."""


BUCKETS = (None, 500_000_000, 50_000_000)
"""Candidate bucket sizes in elements: a unit; DeepSpeed's default; a tenth of it."""


class Variant(StrEnum):
    """The options on top of a stage."""

    PLAIN = "plain"
    PLUS = "zero++"
    OFFLOAD = "offload"
    INFINITY = "infinity"
    HSDP = "hsdp"


_OPTIONS: dict[Variant, tuple[Mapping[str, Any], ...]] = {
    Variant.PLAIN: ({},),
    Variant.PLUS: (
        {"quantize_weights": True},
        {"secondary": True},
        {"quantize_gradients": True},
        {"quantize_weights": True, "secondary": True, "quantize_gradients": True},
    ),
    Variant.OFFLOAD: ({"offload_optimizer": Offload.CPU},),
    Variant.INFINITY: ({"offload_optimizer": Offload.CPU, "offload_param": Offload.CPU},),
    Variant.HSDP: ({},),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """The choices that the question fixes; None and () leave a choice free.

    Attributes:
        config: the configuration from a DeepSpeed file: its stage, buckets, offload, ZeRO++.
        needed: whether blocks are recomputed only if the same layout does not fit without
            recomputation, which is faster whenever it fits.
        context: ranks that share a sequence; experts: ranks that share the experts of a block.
        chunks: model chunks per stage of interleaved pipelines.
        float8: whether matrix products of blocks are 8-bit.
    """

    stages: tuple[int, ...] = STAGES
    tensor: int | None = None
    pipeline: int | None = None
    batch: int | None = None
    recompute: Recompute | None = None
    variant: Variant | None = None
    buckets: tuple[int | None, ...] = BUCKETS
    config: EngineConfig | None = None
    needed: bool = True
    context: int = 1
    experts: int | None = None
    chunks: int | None = None
    float8: bool = False


FREE = Fixed()


def layouts(question: PlanQuestion, fixed: Fixed = FREE) -> Iterator[Layout]:
    """All layouts to try, not ranked."""
    for tensor, pipeline, data in _grids(question, fixed):
        share, left = divmod(question.sequences * fixed.context, data)
        if left or data % fixed.context:
            continue
        for batch in _batches(share, fixed):
            steps = share // batch
            if pipeline > 1 and steps < pipeline:
                continue  # idle for more than half of the time
            for config, replicas in _configs(question, fixed, tensor, pipeline, data):
                for cut, chunks, recompute in product(
                    _cuts(question, fixed, tensor, data, replicas),
                    _chunks(question, fixed, pipeline, steps),
                    [fixed.recompute] if fixed.recompute else [*_RECOMPUTES],
                ):
                    yield Layout(
                        shape=question.shape,
                        config=_engine(config, steps, recompute),
                        data=data,
                        cut=cut,
                        pipeline=pipeline,
                        batch=batch,
                        sequence=question.sequence,
                        ranks_per_node=question.node,
                        keeping=KeptActivations(recompute),
                        chunks=chunks,
                        replicas=replicas,
                        float8=fixed.float8,
                    )


_RECOMPUTES = (Recompute.NONE, Recompute.OPERATORS, Recompute.FULL)
"""The kinds of recomputation; attention keeps no scores here, so selective would change nothing."""


def _cuts(
    question: PlanQuestion, fixed: Fixed, tensor: int, data: int, replicas: int
) -> list[LayerCut]:
    """The layer cuts: experts on one rank, or divided within a node; not with replicas."""
    counts = [one.experts.count for one in question.shape.blocks if one.experts]
    shares = [1]
    if fixed.experts:
        shares = [fixed.experts] if replicas == 1 or fixed.experts == 1 else []
    elif counts and replicas == 1:
        most = min(question.node // tensor, data)
        shares = sorted({1, gcd(most, data, *counts)})
    return [
        LayerCut(tensor, sequence=tensor > 1, context=fixed.context, experts=one)
        for one in shares
        if data % one == 0
    ]


_MOST_CHUNKS = 8


def _chunks(question: PlanQuestion, fixed: Fixed, pipeline: int, steps: int) -> list[int]:
    """Numbers of model chunks: one, or as many as a stage has layers: more are always faster."""
    layers = -(-question.shape.layers // pipeline)
    goes = pipeline > 1 and steps % pipeline == 0
    if fixed.chunks:
        fits = fixed.chunks == 1 or (goes and fixed.chunks <= layers)
        return [fixed.chunks] if fits else []
    if not goes:
        return [1]
    most = max(one for one in range(1, min(layers, _MOST_CHUNKS) + 1) if layers % one == 0)
    return sorted({1, most})


def _grids(question: PlanQuestion, fixed: Fixed) -> Iterator[tuple[int, int, int]]:
    """The grids of tensor x pipeline x data parallel ranks."""
    gpus, shape = question.gpus, question.shape
    heads = shape.key_heads
    tensors = [fixed.tensor] if fixed.tensor else _powers_within(question.node)
    for tensor in tensors:
        if gpus % tensor or heads % tensor:
            continue
        pipelines = [fixed.pipeline] if fixed.pipeline else _powers_within(gpus // tensor)
        for pipeline in pipelines:
            even = shape.layers % pipeline == 0 or 2 * pipeline <= shape.layers
            if gpus % (tensor * pipeline) == 0 and even:
                yield tensor, pipeline, gpus // (tensor * pipeline)


def _powers_within(most: int) -> list[int]:
    return [2**power for power in range(most.bit_length())]


def _batches(share: int, fixed: Fixed) -> list[int]:
    if fixed.batch:
        return [fixed.batch] if share % fixed.batch == 0 else []
    return [one for one in _powers_within(min(share, LARGEST_BATCH)) if share % one == 0]


def _configs(
    question: PlanQuestion, fixed: Fixed, tensor: int, pipeline: int, data: int
) -> Iterator[tuple[EngineConfig, int]]:
    """ZeRO stages with the options based on them, and the numbers of replicas."""
    if fixed.config is not None:
        yield fixed.config, 1
        return
    is_alone = tensor == pipeline == 1
    for stage in fixed.stages:
        if (data == 1 and stage) or (pipeline > 1 and stage > 1):
            continue
        variants = [
            (values, data // question.node if variant is Variant.HSDP else 1)
            for variant in ([fixed.variant] if fixed.variant else Variant)
            if variant is Variant.PLAIN or (is_alone and _goes(question, variant, stage, data))
            for values in _OPTIONS[variant]
        ]
        for bucket in fixed.buckets if stage < 3 and data > 1 else BUCKETS[:1]:
            for values, replicas in variants:
                yield _config(stage, bucket, question.node, tuple(values.items())), replicas


def _goes(question: PlanQuestion, variant: Variant, stage: int, data: int) -> bool:
    """Whether a stage supports these options, and whether the machine has the needed links."""
    if variant in {Variant.PLUS, Variant.HSDP}:
        return stage == 3 and data > question.node > 1
    least = 3 if variant is Variant.INFINITY else 1
    return stage >= least and Link.BUS in question.machine.links


@lru_cache(maxsize=1024)
def _config(
    stage: int, bucket: int | None, node: int, values: tuple[tuple[str, Any], ...]
) -> EngineConfig:
    given = dict(values)
    if given.pop("secondary", False):
        given["secondary_partition"] = node
    return native(EngineConfig(stage=stage, bucket_elements=bucket, **given))


@lru_cache(maxsize=8192)
def _engine(config: EngineConfig, steps: int, recompute: Recompute) -> EngineConfig:
    checkpoints = recompute is Recompute.FULL
    return replace(config, accumulate=steps, checkpoint_activations=checkpoints)


def variant_of(layout: Layout) -> Variant:
    """The options on top of a layout's stage."""
    config = layout.config
    if layout.replicas > 1:
        return Variant.HSDP
    if config.quantizes or config.has_secondary:
        return Variant.PLUS
    if config.offload_param is not Offload.NONE:
        return Variant.INFINITY
    return Variant.OFFLOAD if config.offloads_optimizer else Variant.PLAIN
