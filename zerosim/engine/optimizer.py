"""AdamW on the rows that a rank holds, in fp32, whatever dtype the model computes in.

The arithmetic is PyTorch's own fused AdamW. Stage 0 updates N rows of a unit one by one, where
stages 1 to 3 update one: the same kernel on the same sizes, hence the same bits.
Imports torch, zerosim's L0 and trace.holdings.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from zerosim.config import EngineConfig
from zerosim.engine.flat import FlatUnit
from zerosim.memory import Role
from zerosim.trace.holdings import hold, let_go


class UnitOptimizer:
    """The optimizer states of one unit's rows: fp32 master, momentum, variance.

    K = 12 bytes for each parameter of a row. In fp32 the parameters are their own master.
    """

    def __init__(self, unit: str, rows: Sequence[torch.Tensor], config: EngineConfig) -> None:
        """Copy the rows to fp32.

        Args:
            unit: its name.
            rows: the parameters, in the compute dtype; `update` writes the new values here.
        """
        self._unit = unit
        self._rows = rows
        self._masters = [row.float() for row in rows]
        for master, row in zip(self._masters, rows, strict=True):
            if master is not row:
                hold(master, Role.MASTER, unit)
        self._adam = torch.optim.AdamW(
            self._masters,
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            eps=config.epsilon,
            weight_decay=config.weight_decay,
            fused=True,
        )

    def update(self, gradients: Sequence[torch.Tensor], factor: float) -> None:
        """One step.

        Args:
            gradients: reduced gradients in the compute dtype, one for each row.
            factor: what they are multiplied with in fp32 first: averages, unscales, clips.
        """
        for master, gradient in zip(self._masters, gradients, strict=True):
            master.grad = gradient.float().mul_(factor)
        is_first = not self._adam.state
        self._adam.step()
        if is_first:
            for state in self._adam.state.values():
                hold(state["exp_avg"], Role.MOMENTUM, self._unit)
                hold(state["exp_avg_sq"], Role.VARIANCE, self._unit)
        for row, master in zip(self._rows, self._masters, strict=True):
            master.grad = None
            if row.data_ptr() != master.data_ptr():
                row.copy_(master)

    def let_go(self) -> None:
        """The engine is closed."""
        for master in self._masters:
            let_go(master)
        for state in self._adam.state.values():
            let_go(state["exp_avg"])
            let_go(state["exp_avg_sq"])

    def set_learning_rate(self, learning_rate: float) -> None:
        """Use another learning rate from the next step on."""
        for group in self._adam.param_groups:
            group["lr"] = learning_rate


def make_optimizers(
    units: Sequence[FlatUnit], rows: Sequence[Sequence[torch.Tensor]], config: EngineConfig
) -> dict[str, UnitOptimizer]:
    """An optimizer for each unit, by name.

    Args:
        rows: for each unit, the rows that this rank updates.
    """
    return {
        flat.name: UnitOptimizer(flat.name, own, config)
        for flat, own in zip(units, rows, strict=True)
    }
