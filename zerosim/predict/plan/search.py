"""The search over layouts, and their ranking.

It tries tensor parallelism within a node, pipelines with equal stages, micro-batches of powers of
two, and stages 0 to 3: with ZeRO++ where a group spans nodes, with the optimizer or all states on
the host, with buckets of three sizes, and with full recomputation of blocks or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from zerosim.base.config import Offload
from zerosim.base.errors import ConfigError
from zerosim.base.quantities import format_bytes, format_exact
from zerosim.predict.placement.belief import largest_miss
from zerosim.predict.plan.layout_names import AGAIN, KINDS, gpus_of, kind_of, name_of
from zerosim.predict.plan.layouts import FREE, Fixed, layouts, variant_of
from zerosim.predict.plan.predict import PredictedLayout, predict
from zerosim.predict.plan.prices import Beliefs
from zerosim.predict.plan.question import PlanQuestion
from zerosim.predict.plan.wording import WORDS
from zerosim.theory.layout import Layout
from zerosim.theory.saved import Recompute
from zerosim.theory.transformer import require_cut


@dataclass(frozen=True, slots=True)
class LayoutSearch:
    """All layouts that were tried, the best one first; those that do not fit come last, by peak.

    Among those that fit, layouts that divide ranks as published runs of their software do
    (`PredictedLayout.is_measured`) come first, then the others, each group with the fastest first.
    If one of the others is faster by more than the largest error of any prediction on record, all
    are ordered by time alone.

    Attributes:
        fixed: the choices that the question fixed.
    """

    question: PlanQuestion
    fixed: Fixed
    tried: tuple[PredictedLayout, ...]

    @property
    def fitting(self) -> tuple[PredictedLayout, ...]:
        """The layouts that fit, in order."""
        return tuple(one for one in self.tried if one.fits)

    def fastest(self, count: int) -> tuple[PredictedLayout, ...]:
        """The first `count` that fit: all of them measured, unless the first is not."""
        fitting = self.fitting
        return _first(
            (one for one in fitting if one.is_measured or not fitting[0].is_measured), count
        )

    def beyond(self, count: int) -> tuple[PredictedLayout, ...]:
        """The first `count` that are predicted to be faster, but resemble no published run."""
        fitting = self.fitting
        if not fitting or not fitting[0].is_measured:
            return ()
        step_s = fitting[0].step_s
        return _first(
            (one for one in fitting if not one.is_measured and one.step_s < step_s), count
        )

    @property
    def best(self) -> PredictedLayout:
        """The first layout that fits.

        Raises:
            ConfigError: no layout fits.
        """
        best = self.tried[0]
        if best.fits:
            return best
        machine = self.question.machine
        raise ConfigError(
            f"{self.question.model} fits in no layout on {gpus_of(self.question.gpus)} of "
            f"{machine.name} with {format_bytes(self.question.memory_bytes)}: the smallest peak is "
            f"{format_bytes(best.peak_bytes)}, predicted ({name_of(best.layout)}); try more "
            "GPUs or fewer tokens per sequence"
        )

    @property
    def fastest_too_large(self) -> PredictedLayout | None:
        """The layout that would be faster than the best if there were more memory."""
        if not self.tried[0].fits:
            return None
        faster = [one for one in self.tried if not one.fits and one.step_s < self.tried[0].step_s]
        return min(faster, key=lambda one: one.step_s, default=None)

    def kinds(self) -> dict[str, PredictedLayout]:
        """For each kind of layout, the first that fits, measured ones first, or the smallest."""
        found: dict[str, PredictedLayout] = {}
        for one in self.tried:
            found.setdefault(kind_of(one.layout), one)
        return {kind: found[kind] for kind in KINDS if kind in found}


def _first(some: Iterable[PredictedLayout], count: int) -> tuple[PredictedLayout, ...]:
    """The first `count`; of layouts that differ only in their buckets, only the first."""
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
        ConfigError: the fixed choices are incompatible with the model, the GPUs or the batch.
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
    """The layouts of a plan that remain when further choices are fixed.

    Raises:
        ConfigError: none remains.
    """
    left = tuple(one for one in plan.tried if _is_of(one.layout, fixed))
    if not left:
        question = plan.question
        raise ConfigError(
            WORDS(
                "problems.none",
                model=question.model,
                gpus=gpus_of(question.gpus),
                machine=question.machine.name,
            )
        )
    return replace(plan, fixed=fixed, tried=left)


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
    """The layouts in the order that `LayoutSearch` describes.

    Those that do not fit are ordered by the memory that they need. Among layouts whose step times
    are equal to three digits, which a prediction cannot distinguish, those with fewer options come
    first, then those that need less memory.
    """
    every = tuple(tried)
    asks_measured = _asks_measured([one for one in every if one.fits])

    def rank(one: PredictedLayout) -> tuple[int, float, int, int]:
        if not one.fits:
            return 2, one.peak_bytes, 0, 0
        alike = float(f"{one.step_s:.2e}")
        is_later = asks_measured and not one.is_measured
        return int(is_later), alike, _num_options(one.layout), one.peak_bytes

    return tuple(sorted(every, key=rank))


def _asks_measured(fitting: Sequence[PredictedLayout]) -> bool:
    """Whether the fastest measured layout is as fast as the fastest, within the record's error."""
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
        *(layout.chunks > 1, layout.float8, layout.recompute in AGAIN),
    )
    return sum(map(bool, asked)) + (layout.cut.tensor > 1) + (layout.pipeline > 1)


def require_possible(question: PlanQuestion, fixed: Fixed) -> None:
    """Check that the fixed choices are compatible with the model and the GPUs.

    Raises:
        ConfigError: they are not.
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
            f"chunks is {fixed.chunks}: expected a pipeline with at least that many layers per "
            "stage, and a number of micro-batches that is a multiple of the number of stages; try "
            "--pipeline-parallel 4 or more tokens"
        )
    if fixed.experts:
        return (
            f"expert-parallel is {fixed.experts}: expected a divisor of the data parallel ranks of "
            f"{gpus_of(question.gpus)}"
        )
    data = question.gpus // ((fixed.tensor or 1) * (fixed.pipeline or 1))
    batch = fixed.batch or 1
    return (
        f"{question.sequences} sequences of {question.sequence} tokens cannot be divided among "
        f"{question.gpus} GPUs as requested (data parallel {data}, micro-batch {batch}): "
        f"expected a multiple of {data * batch} sequences, {data * batch * question.sequence:,} "
        "tokens"
    )


# ------------------------------------------------------------------- names
