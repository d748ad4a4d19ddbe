"""Loss scaling, and the agreement between ranks before an update.

fp16 gradients below 6e-8 vanish, so the loss is multiplied by a scale first; the scale is halved
after an overflow and doubled after a number of steps without one (Micikevicius et al. 2018, section
3.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from zerosim.base.config import DType, EngineConfig
from zerosim.schema.events import Purpose
from zerosim.trace import labels
from zerosim.train.collectives import Collectives


class LossScaler:
    """The loss scale; always 1 unless the compute dtype is fp16.

    Attributes:
        scales: whether gradients may overflow, and are checked before they are used.
    """

    def __init__(self, config: EngineConfig) -> None:
        """Start with the configured scale."""
        self.scales = config.dtype is DType.FP16
        self.scale = config.initial_loss_scale if self.scales else 1.0
        self._config = config
        self._good_steps = 0
        self._tolerated = config.loss_scale_hysteresis

    def saved(self) -> list[float]:
        """The state for `restore`."""
        return [self.scale, self._good_steps, self._tolerated]

    def restore(self, saved: Sequence[float]) -> None:
        """Restore the state returned by `saved`."""
        self.scale, self._good_steps, self._tolerated = saved[0], int(saved[1]), int(saved[2])

    def update(self, *, overflowed: bool) -> None:
        """Adapt the scale after a step."""
        if not (self.scales and self._config.dynamic_loss_scale):
            return
        if overflowed:
            self._good_steps = 0
            if self._tolerated > 1:
                self._tolerated -= 1
            else:
                halved = max(self._config.least_loss_scale, self.scale / 2)
                self.scale = min(self.scale, halved)
            return
        if self._config.refill_hysteresis:
            self._tolerated = self._config.loss_scale_hysteresis
        self._good_steps += 1
        if self._good_steps == self._config.loss_scale_interval:
            self.scale *= 2
            self._good_steps = 0
            self._tolerated = self._config.loss_scale_hysteresis


def gather_scalars(
    collectives: Collectives,
    value: float,
    purpose: Purpose,
    dtype: torch.dtype,
    device: torch.device,
) -> list[float]:
    """A number from each rank, in the order of ranks, the same list on all of them.

    All ranks then add in the same order; in an all-reduce, the algorithm would determine the
    order.
    """
    group = collectives.group
    if group.size == 1:
        return [value]
    column = torch.zeros(group.size, 1, dtype=dtype, device=device)
    column[group.rank] = value
    with labels.scope(unit="", purpose=purpose, tensors=(purpose.value,)):
        collectives.all_gather(column).wait()
    return [float(number) for number in column.view(-1).tolist()]


def squared_norm(rows: Sequence[torch.Tensor]) -> float:
    """Sum of squares over some rows: accumulated in fp32 within a row, in fp64 across rows.

    It is infinite or not a number if any element is.
    """
    return sum(
        (float(torch.linalg.vector_norm(row, dtype=torch.float32)) ** 2 for row in rows), 0.0
    )


def clip_factor(norm: float, largest: float | None) -> float:
    """The clipping factor for gradients of this norm, at most 1."""
    if largest is None or not math.isfinite(norm) or norm <= largest:
        return 1.0
    return largest / norm
