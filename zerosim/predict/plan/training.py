"""A whole training run: its duration, its number of GPUs, its cost, and the time lost to failures.

The time lost to failures follows from how often a GPU fails and from how long a checkpoint and a
restart take: a run saves every tau seconds of work, and repeats the work since the last checkpoint.
With delta for writing a checkpoint, R for a restart and M = MTBF of a GPU / GPUs, the best tau and
the expected time are those of Daly; Young's formula is its first term.

Sources: J. W. Young, "A first order approximation to the optimum checkpoint interval" (CACM 17,
1974): tau = sqrt(2 delta M). J. T. Daly, "A higher order estimate of the optimum checkpoint
interval for restart dumps" (FGCS 22, 2006). MTBF: Llama 3 (arXiv 2407.21783, section 3.3.4): 419
unexpected interruptions in 54 days on 16,384 GPUs, so one in 50,700 GPU hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import ceil, exp, expm1, sqrt

from zerosim.base.config.blocks import Architecture
from zerosim.base.config.shapes import Transformer
from zerosim.base.errors import ConfigError
from zerosim.base.quantities import format_exact
from zerosim.predict.plan.layouts import FREE, Fixed
from zerosim.predict.plan.predict import PredictedLayout
from zerosim.predict.plan.question import MOST_GPUS, PlanQuestion
from zerosim.predict.plan.search import LayoutSearch, make_plan
from zerosim.theory.footprint import peak
from zerosim.theory.layout import Layout
from zerosim.theory.operators import model_flops

_HOUR_S, _DAY_S = 3600, 86_400
GPU_MTBF_HOURS = 50_700.0
"""Hours of a GPU between failures that stop the run."""
CHECKPOINT_S, RESTART_S = 60.0, 600.0
"""Seconds to write a checkpoint, and to restart: assumptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The failures of a run, and the cost of recovery.

    Attributes:
        gpu_mtbf_hours: mean time between failures of one GPU.
        checkpoint_s: delta; restart_s: R.
    """

    gpu_mtbf_hours: float = GPU_MTBF_HOURS
    checkpoint_s: float = CHECKPOINT_S
    restart_s: float = RESTART_S

    def mtbf_s(self, gpus: int) -> float:
        """M, for this number of GPUs together."""
        return self.gpu_mtbf_hours * _HOUR_S / gpus

    def young_s(self, gpus: int) -> float:
        """Seconds of work between checkpoints, to the first order."""
        return sqrt(2 * self.checkpoint_s * self.mtbf_s(gpus))

    def daly_s(self, gpus: int) -> float:
        """The same to a higher order; M if a checkpoint takes longer than 2 M."""
        delta, mtbf = self.checkpoint_s, self.mtbf_s(gpus)
        if delta >= 2 * mtbf:
            return mtbf
        part = sqrt(delta / (2 * mtbf))
        return sqrt(2 * delta * mtbf) * (1 + part / 3 + part**2 / 9) - delta

    def goodput(self, gpus: int) -> float:
        """The fraction of the time that advances the training, with a checkpoint every `daly_s`."""
        mtbf, every = self.mtbf_s(gpus), self.daly_s(gpus)
        saved = (every + self.checkpoint_s) / mtbf
        if saved > _HOPELESS:
            return 0.0
        return every / (mtbf * exp(self.restart_s / mtbf) * expm1(saved))


_HOPELESS = 500.0
"""Above this ratio a run never reaches a checkpoint, and the exponential would overflow."""


@dataclass(frozen=True, slots=True)
class Training:
    """All tokens of a training run with one layout.

    Attributes:
        tokens: T.
        price: price of a GPU hour; None if unknown.
    """

    predicted: PredictedLayout
    tokens: int
    failures: Failures
    price: float | None = None

    @property
    def gpus(self) -> int:
        """Total number of GPUs."""
        return self.predicted.layout.num_ranks

    @property
    def goodput(self) -> float:
        """The fraction of the time that is not lost to failures."""
        return self.failures.goodput(self.gpus)

    @property
    def days(self) -> float:
        """Duration in days, including time lost to failures; infinite if they take all of it."""
        if not self.goodput:
            return float("inf")
        return self.tokens / self.predicted.tokens_per_second / self.goodput / _DAY_S

    @property
    def gpu_hours(self) -> float:
        """GPU hours of all GPUs."""
        return self.days * 24 * self.gpus

    @property
    def cost(self) -> float | None:
        """Cost in the currency of the price."""
        return None if self.price is None else self.gpu_hours * self.price


def plan_for_days(
    ask_for: Callable[[int], PlanQuestion],
    tokens: int,
    days: float,
    failures: Failures,
    fixed: Fixed = FREE,
) -> LayoutSearch:
    """The plan with the fewest GPUs (8, 16, 32 ...) that trains on all tokens in time.

    Args:
        ask_for: the question for a number of GPUs.

    Raises:
        ConfigError: not even the largest number of GPUs does.
    """
    gpus = _least(ask_for(_FEWEST), tokens, days)
    while gpus <= MOST_GPUS:
        try:
            plan = make_plan(ask_for(gpus), fixed)
            if Training(plan.best, tokens, failures).days <= days:
                return plan
        except ConfigError:
            pass  # the model does not fit on so few
        gpus *= 2
    raise ConfigError(
        f"{format_exact(tokens)} tokens in {days:g} days: expected a training run that at most "
        f"{format_exact(MOST_GPUS)} GPUs can do; try more days or fewer tokens"
    )


_FEWEST = 8


def _least(question: PlanQuestion, tokens: int, days: float) -> int:
    """The first number of GPUs to try: 8, or a power of two that is too few even at their peak."""
    flops = model_flops(question.shape, 1, question.sequence) * tokens
    needed = flops / (question.machine.flops_per_second * days * _DAY_S)
    return max(_FEWEST, 1 << max(0, ceil(needed).bit_length() - 1))


# ------------------------------------------------------------------- what fits


def largest_batch(one: PredictedLayout) -> int:
    """The most sequences of a micro-batch that fit in the layout."""
    return _largest(one, lambda size: replace(one.layout, batch=size), 1 << 16)


def largest_sequence(one: PredictedLayout) -> int:
    """The longest sequence, in tokens, that fits in the layout, with one per micro-batch."""
    grain = one.layout.cut.context * one.layout.cut.tensor * _GRAIN

    def longer(size: int) -> Layout:
        return replace(one.layout, batch=1, sequence=size * grain)

    return grain * _largest(one, longer, 1 << 16)


_GRAIN = 128


def largest_model(one: PredictedLayout) -> Transformer:
    """The model with the most layers that fit in the layout."""
    shape, layout = one.layout.shape, one.layout
    stages = layout.pipeline * layout.chunks

    def deeper(size: int) -> Layout:
        return replace(layout, shape=with_layers(shape, size * stages))

    count = _largest(one, deeper, 1 << 14)
    return with_layers(shape, max(1, count) * stages)


def with_layers(shape: Transformer, layers: int) -> Transformer:
    """The same model with another number of layers; the rarer kind of blocks is unchanged."""
    if not isinstance(shape, Architecture):
        return replace(shape, layers=layers)
    first, *others = shape.blocks
    own = max(1, layers - sum(one.layers for one in others))
    windows = tuple((size, ceil(count * own / first.layers)) for size, count in first.windows)
    changed = replace(first, layers=own, windows=windows)
    return replace(shape, blocks=(changed, *others))


def _largest(one: PredictedLayout, layout_of: Callable[[int], Layout], most: int) -> int:
    """The largest number that fits, found by doubling and bisection; 0 if not even 1 fits."""

    def fits(size: int) -> bool:
        try:
            found = peak(layout_of(size), one.question.margin)
        except ConfigError:
            return False
        return found.bytes <= one.question.memory_bytes

    low, high = 0, 1
    while high <= most and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def lines_of(training: Training) -> Iterator[tuple[str, str, str]]:
    """The results for a training run: quantity, value, and formula."""
    gpus, failures = training.gpus, training.failures
    yield "GPUs", format_exact(gpus), ""
    yield "days", f"{training.days:,.1f}", "T / (tokens a second x goodput)"
    yield "GPU-hours", f"{training.gpu_hours:,.0f}", "days x 24 x GPUs"
    if training.cost is not None:
        yield "price", f"{training.cost:,.0f}", f"GPU-hours x {training.price:g}"
    yield (
        "a failure every",
        f"{failures.mtbf_s(gpus) / _HOUR_S:,.1f} h",
        f"M = {failures.gpu_mtbf_hours:,.0f} h of a GPU / GPUs (Llama 3, arXiv 2407.21783, 3.3.4)",
    )
    young = f"{failures.young_s(gpus) / 60:,.1f} min"
    by = f"Daly 2006; Young 1974: sqrt(2 x {failures.checkpoint_s:g} s x M) = {young}"
    yield "a checkpoint every", f"{failures.daly_s(gpus) / 60:,.1f} min", by
    yield "goodput", f"{training.goodput:.1%}", "tau / (M exp(R/M) (exp((tau+delta)/M) - 1)), Daly"
