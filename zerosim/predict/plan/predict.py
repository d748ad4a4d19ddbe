"""The predictions for one layout: whether it fits, how long a step takes, what limits it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from zerosim.predict.placement.belief import MeasuredDivision, Software
from zerosim.predict.plan.prices import Beliefs, Prices
from zerosim.predict.plan.question import PlanQuestion
from zerosim.predict.plan.schedule import TimeCategory, Times, step_times
from zerosim.theory.footprint import Footprint, peak, peak_bytes
from zerosim.theory.layout import Layout
from zerosim.theory.operators import model_flops
from zerosim.theory.saved import Recompute
from zerosim.theory.transformer import BLOCK

_NS = 1e9
_DAY_S = 86_400
_LIMITS = {
    TimeCategory.COMPUTE: "compute",
    TimeCategory.AGAIN: "computing again, for memory",
    TimeCategory.UPDATE: "the update",
    TimeCategory.NODE: "network in the node",
    TimeCategory.NETWORK: "network between nodes",
    TimeCategory.BUS: "device and host",
    TimeCategory.STORAGE: "the disk",
    TimeCategory.BUBBLE: "pipeline bubble",
}
_NOTHING_AGAIN = (Recompute.NONE, Recompute.SELECTIVE)
"""Recomputation that counts as none: attention keeps no scores here to recompute."""
_MUCH = 0.25
"""The fraction of a step from which a cause besides computing counts as its limit."""


@dataclass(frozen=True)
class PredictedLayout:
    """One layout, with all predictions for it.

    Attributes:
        beliefs: the machine's prices with each kind of software.
        peak_bytes: a rank's peak, the margin included.
    """

    question: PlanQuestion
    layout: Layout
    beliefs: Beliefs
    peak_bytes: int

    @cached_property
    def footprint(self) -> Footprint:
        """The parts of the peak, computed on demand."""
        return peak(self.layout, self.question.margin)

    @property
    def prices(self) -> Prices:
        """The prices with the software for this kind of layout."""
        return self.beliefs.of(self.layout)

    @property
    def software(self) -> Software | None:
        """The software whose measured constants the times use; None for ideal software."""
        return self.prices.software

    @cached_property
    def is_measured(self) -> bool:
        """Whether published runs of its software divide ranks like this; True without software."""
        software, layout = self.software, self.layout
        if software is None or not software.measured:
            return True
        config, again = layout.config, layout.recompute
        if config.quantizes or config.has_secondary or config.offloads or layout.replicas > 1:
            return False
        found = MeasuredDivision(
            tensor=layout.cut.tensor,
            pipeline=layout.pipeline > 1,
            data=layout.data > 1,
            stage=config.stage,
            again=() if again in _NOTHING_AGAIN else (again.value,),
        )
        has_experts = any(block.experts for block in layout.shape.blocks)
        return not has_experts and any(one.covers(found) for one in software.measured)

    @cached_property
    def bound_s(self) -> float:
        """The duration of a step with ideal software: the machine's bound."""
        return sum(step_times(self.beliefs.bound, self.layout).values()) / _NS

    @cached_property
    def times(self) -> Times:
        """The time of one optimizer step on one rank, in ns by cause, computed on demand."""
        return step_times(self.prices, self.layout)

    @cached_property
    def fits(self) -> bool:
        """Whether the peak is within the card's memory."""
        return self.peak_bytes <= self.question.memory_bytes

    @cached_property
    def step_s(self) -> float:
        """The duration of one optimizer step."""
        return sum(self.times.values()) / _NS

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of all GPUs together."""
        return self.layout.tokens / self.step_s

    @property
    def tokens_per_day(self) -> float:
        """Tokens per day of all GPUs together."""
        return self.tokens_per_second * _DAY_S

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization: the model's FLOP/s as a fraction of the GPUs' peak."""
        peak_flops = self.question.machine.flops_per_second * self.layout.num_ranks
        needed = model_flops(self.layout.shape, self.layout.tokens, self.layout.sequence)
        return needed / (self.step_s * peak_flops)

    @property
    def limit(self) -> str:
        """The largest part of the time besides computing, if it is significant; else computing."""
        beside = [
            (ns, cause) for cause, ns in self.times.items() if cause is not TimeCategory.COMPUTE
        ]
        most, cause = max(beside, default=(0.0, TimeCategory.COMPUTE))
        is_much = most >= _MUCH * sum(self.times.values())
        return _LIMITS[cause if is_much else TimeCategory.COMPUTE]


def predict(beliefs: Beliefs, question: PlanQuestion, layout: Layout) -> PredictedLayout:
    """All predictions for a layout."""
    return PredictedLayout(question, layout, beliefs, peak_bytes(layout, question.margin))


def tokens_that_hide(prices: Prices, layout: Layout) -> float | None:
    """The smallest number of tokens of a micro-batch that hides a block's gather.

    The gather then ends while the previous block computes. C / W: a GPU's computing speed divided
    by the rate at which it receives, both from the cost model (scaling-book, gpus.md); None if
    nothing is gathered.
    """
    block = next(one for one in prices.units(layout, "last") if one.name == BLOCK)
    if block.moved.gather_forward is None or not block.forward:
        return None
    return layout.computing.tokens * block.moved.gather_forward.ns / block.forward
