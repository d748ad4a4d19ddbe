"""One layout on different numbers of GPUs, with the same tokens per step: strong scaling.

A GPU with fewer tokens computes less, but gathers just as many parameters. With at least C / W
tokens, a block's gather ends while another block computes; with fewer, communication is exposed.

Source: scaling-book, gpus.md (J. Austin et al. 2025): data-parallel training is compute-bound if a
GPU has more than C / W tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from zerosim.base.errors import ConfigError
from zerosim.predict.plan.predict import PredictedLayout, predict, tokens_that_hide
from zerosim.predict.plan.prices import Beliefs
from zerosim.predict.plan.question import PlanQuestion
from zerosim.theory.layout import Layout

MOST_SHOWN = 4096
"""GPUs."""


@dataclass(frozen=True, slots=True)
class Point:
    """A layout on one number of GPUs.

    Attributes:
        tokens_per_gpu: tokens of one micro-batch.
        hiding_tokens: the number of tokens that hides a gather; None if nothing is gathered.
    """

    predicted: PredictedLayout
    tokens_per_gpu: int
    hiding_tokens: float | None

    @property
    def gpus(self) -> int:
        """Total number of GPUs."""
        return self.predicted.layout.num_ranks

    @property
    def hides(self) -> bool:
        """Whether a block's gather is hidden by the computation of another block."""
        return self.hiding_tokens is None or self.tokens_per_gpu >= self.hiding_tokens


def scaled(beliefs: Beliefs, question: PlanQuestion, layout: Layout) -> tuple[Point, ...]:
    """A layout on 1, 2, 4 ... GPUs, where its batch and its ranks can be divided among them.

    The micro-batch is the layout's, or the GPU's share of the batch if that is smaller.
    """
    return tuple(_points(beliefs, question, layout))


def _points(beliefs: Beliefs, question: PlanQuestion, layout: Layout) -> Iterator[Point]:
    size = question.machine.ranks_per_node or MOST_SHOWN
    gpus = layout.cut.tensor * layout.pipeline
    while gpus <= MOST_SHOWN:
        data = gpus // (layout.cut.tensor * layout.pipeline)
        share, left = divmod(question.sequences, data)
        if not left and share and (gpus <= size or gpus % size == 0):
            point = _point(beliefs, question, layout, gpus, share)
            if point is not None:
                yield point
        gpus *= 2


def _point(
    beliefs: Beliefs, question: PlanQuestion, layout: Layout, gpus: int, share: int
) -> Point | None:
    """None if the layout's groups do not divide this number of GPUs."""
    batch = min(layout.batch, share)
    if share % batch:
        return None
    node = min(gpus, question.machine.ranks_per_node or gpus)
    config = replace(layout.config, accumulate=share // batch)
    data = gpus // (layout.cut.tensor * layout.pipeline)
    try:
        here = replace(layout, config=config, data=data, batch=batch, ranks_per_node=node)
        found = predict(beliefs, replace(question, gpus=gpus), here)
    except ConfigError:
        return None
    return Point(found, batch * layout.sequence, tokens_that_hide(found.prices, here))
