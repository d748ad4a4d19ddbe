"""Every layout that is tried, and which of them is fastest.

What is tried: tensor parallel within a node, pipelines whose stages are equal, micro-batches of
powers of two, stages 0 to 3, with ZeRO++ where a group spans nodes, with the optimizer or all of it
on the host, with buckets of three sizes, and with all of a block computed again or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import product
from math import gcd
from typing import Any

from zerosim.base.config import STAGE_NAMES, STAGES, EngineConfig, Offload
from zerosim.base.errors import ConfigError
from zerosim.base.language import term
from zerosim.base.quantities import format_bytes, format_exact
from zerosim.base.tiers import Link
from zerosim.predict.placement.belief import largest_miss
from zerosim.predict.plan.predict import PredictedLayout, predict
from zerosim.predict.plan.prices import Beliefs
from zerosim.predict.plan.question import PlanQuestion
from zerosim.predict.plan.wording import WORDS
from zerosim.theory.layout import Layout, native
from zerosim.theory.saved import KeptActivations, Recompute
from zerosim.theory.transformer import LayerCut, require_cut

LARGEST_BATCH = 16
"""Sequences of a micro-batch."""
BUCKETS = (None, 500_000_000, 50_000_000)
"""Elements: a unit; what DeepSpeed takes by default; a tenth of it."""


class Variant(StrEnum):
    """What is built on a stage."""

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
    """What is not to be chosen; None and () are.

    Attributes:
        config: of a DeepSpeed file: stage, buckets, offload, ZeRO++ as they stand there.
        needed: blocks are computed again only where the same layout does not fit without that,
            which is faster wherever it fits.
        context: ranks that share a sequence; experts: ranks that share the experts of a block.
        chunks: of interleaved pipelines.
        float8: products of blocks in 8 bits.
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
    """All that is tried, in no order of their worth."""
    for tensor, pipeline, data in _grids(question, fixed):
        share, left = divmod(question.sequences * fixed.context, data)
        if left or data % fixed.context:
            continue
        for batch in _batches(share, fixed):
            steps = share // batch
            if pipeline > 1 and steps < pipeline:
                continue  # more idle than not
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
"""Attention keeps no scores here, so that there is nothing for a selective one to leave out."""


def _cuts(
    question: PlanQuestion, fixed: Fixed, tensor: int, data: int, replicas: int
) -> list[LayerCut]:
    """With the experts on one rank, or divided within a node as far as they go, but of replicas."""
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
    """One, or as many as go into a stage's layers: of interleaving more is always faster."""
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
    """Tensor x pipeline x data parallel."""
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
    """Stages with what is built on them, and how many groups have all states."""
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
    """Whether a stage has this, and the machine what it needs."""
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


@dataclass(frozen=True, slots=True)
class LayoutSearch:
    """All that was tried, the first of which is the answer, then what does not fit by its peak.

    Of those that fit, the layouts come first that divide ranks as published runs of their software
    do (`PredictedLayout.is_measured`), the fastest first, then the others likewise. Where another
    one is faster by more than any prediction on record was off, all come by their time alone.

    Attributes:
        fixed: what was not to be chosen.
    """

    question: PlanQuestion
    fixed: Fixed
    tried: tuple[PredictedLayout, ...]

    @property
    def fitting(self) -> tuple[PredictedLayout, ...]:
        """Those that fit, in their order."""
        return tuple(one for one in self.tried if one.fits)

    def fastest(self, count: int) -> tuple[PredictedLayout, ...]:
        """So many of those that fit, all measured or, if the first is not, of either kind."""
        fitting = self.fitting
        return _first(
            (one for one in fitting if one.is_measured or not fitting[0].is_measured), count
        )

    def beyond(self, count: int) -> tuple[PredictedLayout, ...]:
        """So many that are predicted to be faster, and that no published run of theirs is like."""
        fitting = self.fitting
        if not fitting or not fitting[0].is_measured:
            return ()
        step_s = fitting[0].step_s
        return _first(
            (one for one in fitting if not one.is_measured and one.step_s < step_s), count
        )

    @property
    def best(self) -> PredictedLayout:
        """The first that fits.

        Raises:
            ConfigError: nothing does.
        """
        best = self.tried[0]
        if best.fits:
            return best
        machine = self.question.machine
        raise ConfigError(
            f"{self.question.model} fits in no layout on {_gpus(self.question.gpus)} of "
            f"{machine.name} with {format_bytes(self.question.memory_bytes)}: the smallest peak is "
            f"{format_bytes(best.footprint.bytes)}, predicted ({name_of(best.layout)}); try more "
            "GPUs or fewer tokens a sequence"
        )

    @property
    def fastest_too_large(self) -> PredictedLayout | None:
        """What would be faster than the best, if there were more memory."""
        if not self.tried[0].fits:
            return None
        faster = [one for one in self.tried if not one.fits and one.step_s < self.tried[0].step_s]
        return min(faster, key=lambda one: one.step_s, default=None)

    def kinds(self) -> dict[str, PredictedLayout]:
        """Of each kind of layout the first that fits, measured before others, or the smallest."""
        found: dict[str, PredictedLayout] = {}
        for one in self.tried:
            found.setdefault(kind_of(one.layout), one)
        return {kind: found[kind] for kind in KINDS if kind in found}


def _first(some: Iterable[PredictedLayout], count: int) -> tuple[PredictedLayout, ...]:
    """So many; of layouts that differ in their buckets alone, the first."""
    found: dict[Layout, PredictedLayout] = {}
    for one in some:
        config = replace(one.layout.config, bucket_elements=None)
        found.setdefault(replace(one.layout, config=config), one)
        if len(found) == count:
            break
    return tuple(found.values())


def make_plan(question: PlanQuestion, fixed: Fixed = FREE) -> LayoutSearch:
    """Try all layouts.

    Raises:
        ConfigError: what is fixed does not go together with the model, the GPUs or the batch.
    """
    require_possible(question, fixed)
    beliefs = Beliefs(question.machine, is_ideal=question.is_ideal)
    tried: list[PredictedLayout] = []
    for layout in layouts(question, fixed):
        again = layout.recompute is not Recompute.NONE and not fixed.recompute
        if not (fixed.needed and again and tried[-1].fits):
            tried.append(predict(beliefs, question, layout))
    if not tried:
        raise ConfigError(_nothing(question, fixed))
    return LayoutSearch(question, fixed, ordered(tried))


def narrowed(plan: LayoutSearch, fixed: Fixed) -> LayoutSearch:
    """Of a plan what is left when more is fixed.

    Raises:
        ConfigError: nothing is.
    """
    left = tuple(one for one in plan.tried if _is_of(one.layout, fixed))
    if not left:
        question = plan.question
        raise ConfigError(
            WORDS(
                "problems.none",
                model=question.model,
                gpus=_gpus(question.gpus),
                machine=question.machine.name,
            )
        )
    return replace(plan, fixed=fixed, tried=left)


def variant_of(layout: Layout) -> Variant:
    """What is built on a layout's stage."""
    config = layout.config
    if layout.replicas > 1:
        return Variant.HSDP
    if config.quantizes or config.has_secondary:
        return Variant.PLUS
    if config.offload_param is not Offload.NONE:
        return Variant.INFINITY
    return Variant.OFFLOAD if config.offloads_optimizer else Variant.PLAIN


def _is_of(layout: Layout, fixed: Fixed) -> bool:
    asked = (
        (fixed.tensor, layout.cut.tensor),
        (fixed.pipeline, layout.pipeline),
        (fixed.batch, layout.batch),
        (fixed.recompute, layout.recompute),
        (fixed.variant, variant_of(layout)),
    )
    return layout.config.stage in fixed.stages and all(
        wanted is None or wanted == is_so for wanted, is_so in asked
    )


def ordered(tried: Iterable[PredictedLayout]) -> tuple[PredictedLayout, ...]:
    """The measured ones that fit first, the fastest of them, as `LayoutSearch` says.

    What does not fit by how much it needs. Of those whose steps are alike in three digits, the one
    with the fewest options, then the one that needs least memory: a prediction cannot tell them
    apart.
    """
    every = tuple(tried)
    asks_measured = _asks_measured([one for one in every if one.fits])

    def rank(one: PredictedLayout) -> tuple[int, float, int, int]:
        if not one.fits:
            return 2, one.footprint.bytes, 0, 0
        alike = float(f"{one.step_s:.2e}")
        is_later = asks_measured and not one.is_measured
        return int(is_later), alike, _num_options(one.layout), one.footprint.bytes

    return tuple(sorted(every, key=rank))


def _asks_measured(fitting: Sequence[PredictedLayout]) -> bool:
    """Whether the fastest measured layout is as fast as the fastest of all, for all we know."""
    measured = [one.step_s for one in fitting if one.is_measured]
    if not measured:
        return False
    return min(measured) <= (1 + largest_miss()) * min(one.step_s for one in fitting)


def _num_options(layout: Layout) -> int:
    config, cut = layout.config, layout.cut
    asked = (
        *(config.quantize_weights, config.has_secondary, config.quantize_gradients),
        *(config.offloads_optimizer, config.offload_param is not Offload.NONE),
        *(config.bucket_elements, layout.replicas > 1, cut.context > 1, cut.experts > 1),
        *(layout.chunks > 1, layout.float8, layout.recompute in _AGAIN),
    )
    return sum(map(bool, asked)) + (layout.cut.tensor > 1) + (layout.pipeline > 1)


def require_possible(question: PlanQuestion, fixed: Fixed) -> None:
    """See that what is fixed goes together with the model and the GPUs.

    Raises:
        ConfigError: it does not.
    """
    tensor, pipeline = fixed.tensor or 1, fixed.pipeline or 1
    require_cut(question.model, question.shape, tensor)
    if tensor > question.node:
        raise ConfigError(WORDS("problems.in_node", tensor=tensor, node=question.node))
    if question.gpus % (tensor * pipeline):
        given = {"gpus": question.gpus, "tensor": tensor, "pipeline": pipeline}
        raise ConfigError(WORDS("problems.grid", **given))
    for total, of in (
        (question.gpus // (tensor * pipeline), "data parallel ranks"),
        (question.sequence, "tokens of a sequence"),
    ):
        if total % fixed.context:
            raise ConfigError(
                f"context-parallel is {fixed.context}: expected a divisor of the "
                f"{format_exact(total)} {of}"
            )
    if pipeline > question.shape.layers:
        layers = question.shape.layers
        words = WORDS("problems.layers", pipeline=pipeline, model=question.model, layers=layers)
        raise ConfigError(words)


def _nothing(question: PlanQuestion, fixed: Fixed) -> str:
    """Why there is not even one layout."""
    if fixed.chunks and fixed.chunks > 1:
        return (
            f"chunks is {fixed.chunks}: expected a pipeline whose stages have as many layers, and "
            "micro-batches in a multiple of its stages; try --pipeline-parallel 4 or more tokens"
        )
    if fixed.experts:
        return (
            f"expert-parallel is {fixed.experts}: expected a divisor of the data parallel ranks of "
            f"{_gpus(question.gpus)}"
        )
    data = question.gpus // ((fixed.tensor or 1) * (fixed.pipeline or 1))
    batch = fixed.batch or 1
    return (
        f"{question.sequences} sequences of {question.sequence} tokens cannot be shared by "
        f"{question.gpus} GPUs as asked (data parallel {data}, micro-batch {batch}): expected a "
        f"multiple of {data * batch} sequences, {data * batch * question.sequence:,} tokens"
    )


# ------------------------------------------------------------------- names

KINDS = (
    "data parallel",
    "ZeRO-1",
    "ZeRO-2",
    "ZeRO-3",
    "ZeRO++",
    "ZeRO-Offload",
    "ZeRO-Infinity",
    "HSDP",
    "tensor parallel",
    "pipeline parallel",
)


def kind_of(layout: Layout) -> str:
    """Which of `KINDS` a layout is of."""
    if layout.pipeline > 1:
        return "pipeline parallel"
    if layout.cut.tensor > 1:
        return "tensor parallel"
    variant = variant_of(layout)
    return STAGE_NAMES[layout.config.stage] if variant is Variant.PLAIN else _KINDS[variant]


_KINDS = {
    Variant.PLUS: "ZeRO++",
    Variant.OFFLOAD: "ZeRO-Offload",
    Variant.INFINITY: "ZeRO-Infinity",
    Variant.HSDP: "HSDP",
}


def name_of(layout: Layout) -> str:
    """A layout in one line."""
    return " · ".join(words_of(layout))


def words_of(layout: Layout) -> Sequence[str]:
    """The parts of its name: stage and options, ranks, batch."""
    # where nothing is data parallel, no stage says how the ranks are divided
    stage = term(STAGE_NAMES[layout.config.stage] if layout.data > 1 else kind_of(layout))
    grid = f"{layout.cut.tensor} x {layout.pipeline} x {layout.data}"
    batch = f"{layout.batch} x {layout.micro_batches}"
    return (", ".join([stage, *options_of(layout)]), grid, batch)


def options_of(layout: Layout) -> list[str]:
    """What is built on a layout's stage, in words."""
    config = layout.config
    return [
        *(["qwZ"] if config.quantize_weights else []),
        *([f"hpZ {config.secondary_partition}"] if config.has_secondary else []),
        *(["qgZ"] if config.quantize_gradients else []),
        *([WORDS("options.offload_optimizer")] if config.offloads_optimizer else []),
        *([WORDS("options.offload_param")] if config.offload_param is not Offload.NONE else []),
        *([_bucket(config.bucket_elements)] if config.bucket_elements else []),
        *_counted("replicas", layout.replicas),
        *_counted("context", layout.cut.context),
        *_counted("experts", layout.cut.experts),
        *_counted("chunks", layout.chunks),
        *(["float8"] if layout.float8 else []),
        *([WORDS(f"options.{layout.recompute}")] if layout.recompute in _AGAIN else []),
    ]


_AGAIN = (Recompute.FULL, Recompute.OPERATORS)


def _counted(name: str, count: int) -> list[str]:
    """Ranks or parts of a kind, if there is more than one."""
    return [WORDS(f"options.{name}", count=count)] if count > 1 else []


def _gpus(count: int) -> str:
    return WORDS("problems.one_gpu") if count == 1 else WORDS("problems.many", count=f"{count:,}")


def _bucket(elements: int) -> str:
    return WORDS("options.bucket", millions=f"{elements / 1e6:g}")
