"""Adam on the rows that a rank holds, in fp32, whatever dtype the model computes in.

The arithmetic is PyTorch's own fused AdamW, or Adam. Stage 0 updates N rows of a unit one by one,
where stages 1 to 3 update one: the same kernel on the same sizes, hence the same bits.
Imports torch, zerosim's L0 and trace.holdings.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from zerosim.config import EngineConfig
from zerosim.engine.flat import FlatUnit
from zerosim.engine.groups import Cut, ParameterGroups
from zerosim.engine.stage import Stage
from zerosim.memory import Role
from zerosim.trace.holdings import hold, let_go


class UnitOptimizer:
    """The optimizer states of one unit's rows: fp32 master, momentum, variance.

    K = 12 bytes for each parameter of a row. In fp32 the parameters are their own master.
    """

    def __init__(
        self,
        unit: str,
        rows: Sequence[torch.Tensor],
        config: EngineConfig,
        groups: ParameterGroups | None = None,
        cuts: Sequence[Sequence[Cut]] | None = None,
    ) -> None:
        """Copy the rows to fp32.

        Args:
            unit: its name.
            rows: the parameters, in the compute dtype; `update` writes the new values here.
            groups: what the parameters are updated with; by default one group, as configured.
            cuts: for each row, its columns by group; by default all in the first.
        """
        self._unit = unit
        self._rows = rows
        self._groups = groups or ParameterGroups.single(config)
        self._cuts = cuts or [[Cut(0, 0, row.numel())] for row in rows]
        self._masters = [row.float() for row in rows]
        for master, row in zip(self._masters, rows, strict=True):
            if master is not row:
                hold(master, Role.MASTER, unit)
        self._pieces = [
            [master[cut.start : cut.stop] if len(own) > 1 else master for cut in own]
            for master, own in zip(self._masters, self._cuts, strict=True)
        ]
        by_group: dict[int, list[torch.Tensor]] = {}
        for own, pieces in zip(self._cuts, self._pieces, strict=True):
            for cut, piece in zip(own, pieces, strict=True):
                by_group.setdefault(cut.group, []).append(piece)
        self._numbers = list(by_group)
        kind = torch.optim.AdamW if config.decoupled_weight_decay else torch.optim.Adam
        self._adam = kind(
            [
                {"params": pieces, **self._groups.hyperparameters(number)}
                for number, pieces in by_group.items()
            ],
            fused=True,
        )

    def update(self, gradients: Sequence[torch.Tensor], factor: float) -> None:
        """One step.

        Args:
            gradients: reduced gradients in the compute dtype, one for each row.
            factor: what they are multiplied with in fp32 first: averages, unscales, clips.
        """
        for own, pieces, gradient in zip(self._cuts, self._pieces, gradients, strict=True):
            whole = gradient.float().mul_(factor)
            for cut, piece in zip(own, pieces, strict=True):
                piece.grad = whole[cut.start : cut.stop]
        for group, number in zip(self._adam.param_groups, self._numbers, strict=True):
            group.update(self._groups.hyperparameters(number))
        is_first = not self._adam.state
        self._adam.step()
        if is_first:
            for state in self._adam.state.values():
                hold(state["exp_avg"], Role.MOMENTUM, self._unit)
                hold(state["exp_avg_sq"], Role.VARIANCE, self._unit)
        for row, master, pieces in zip(self._rows, self._masters, self._pieces, strict=True):
            for piece in pieces:
                piece.grad = None
            if row.data_ptr() != master.data_ptr():
                row.copy_(master)

    def let_go(self) -> None:
        """The engine is closed."""
        for master in self._masters:
            let_go(master)
        for state in self._adam.state.values():
            let_go(state["exp_avg"])
            let_go(state["exp_avg_sq"])


def make_optimizers(
    units: Sequence[FlatUnit], stage: Stage, config: EngineConfig, groups: ParameterGroups
) -> dict[str, UnitOptimizer]:
    """An optimizer for each unit, by name, of the rows that this rank updates."""
    return {
        flat.name: UnitOptimizer(
            flat.name,
            stage.parameter_rows(flat),
            config,
            groups,
            [groups.cuts(flat.unit, row) for row in stage.updated_rows()],
        )
        for flat in units
    }
