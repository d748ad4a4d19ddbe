"""The update: what ranks agree on, then AdamW on the rows that each one holds.

Imports torch, zerosim's L0, collectives and trace.labels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from zerosim.engine.flat import FlatUnit
from zerosim.engine.groups import ParameterGroups
from zerosim.engine.optimizer import make_optimizers
from zerosim.engine.scaling import LossScaler, clip_factor, gather_scalars, squared_norm
from zerosim.engine.stage import Context, Stage
from zerosim.events import Purpose
from zerosim.trace import labels


class Updater:
    """Does the optimizer steps of a stage.

    Attributes:
        scaler: the loss scale.
        gradient_norm: global norm of the last step, if it was clipped; else None.
    """

    def __init__(self, context: Context, stage: Stage, groups: ParameterGroups) -> None:
        """Copy the rows that this rank updates to fp32."""
        self._context = context
        self._stage = stage
        self._trained: Sequence[FlatUnit] = [f for f in context.units if f.unit.trainable]
        self._device = self._trained[0].flat.device
        self._groups = groups
        self._optimizers = make_optimizers(self._trained, stage, context.config, groups)
        self.scaler = LossScaler(context.config)
        self.gradient_norm: float | None = None

    def step(self) -> bool:
        """Update all units, unless a gradient of any rank overflowed.

        Returns:
            True if the step was left out.
        """
        overflowed = self._overflowed()
        if overflowed:
            labels.metric("overflow", 1.0)
        else:
            self._update()
        self._stage.finish_update()
        if self.scaler.scales:
            labels.metric("loss scale", self.scaler.scale)
        self.scaler.update(overflowed=overflowed)
        return overflowed

    def set_learning_rate(self, learning_rate: float) -> None:
        """Use another learning rate from the next step on."""
        self._groups.set_learning_rate(learning_rate)

    def let_go(self) -> None:
        """The engine is closed: the optimizer's states serve no purpose any more."""
        for optimizer in self._optimizers.values():
            optimizer.let_go()

    def _overflowed(self) -> bool:
        if not self.scaler.scales:
            return False
        own = squared_norm([r for flat in self._trained for r in self._stage.gradient_rows(flat)])
        flag = 0.0 if math.isfinite(own) else 1.0
        if self._context.config.stage == 0:
            return flag > 0
        return any(self._gather(flag, Purpose.OVERFLOW_FLAG, torch.float32))

    def _update(self) -> None:
        config = self._context.config
        factor = 1.0 / (self._context.num_ranks * config.accumulate * self.scaler.scale)
        if config.clip is not None:
            self.gradient_norm = factor * self._summed_gradient_norm()
            factor *= clip_factor(self.gradient_norm, config.clip)
            labels.metric("gradient norm", self.gradient_norm)
        for flat in self._trained:
            with labels.compute(flat.name):
                self._optimizers[flat.name].update(self._stage.gradient_rows(flat), factor)
            self._stage.after_update(flat)

    def _summed_gradient_norm(self) -> float:
        """Norm of the summed gradient: the same additions in the same order in every stage."""
        rows = [self._stage.gradient_rows(flat) for flat in self._trained]
        squares = [squared_norm(of_one_rank) for of_one_rank in zip(*rows, strict=True)]
        if len(squares) < self._context.num_ranks:
            squares = self._gather(squares[0], Purpose.GRADIENT_NORM, torch.float64)
        return math.sqrt(sum(squares))

    def _gather(self, value: float, purpose: Purpose, dtype: torch.dtype) -> list[float]:
        return gather_scalars(self._context.collectives, value, purpose, dtype, self._device)
