"""Adam on a rank's rows, in fp32, whatever the compute dtype is.

The arithmetic is PyTorch's own fused AdamW, or Adam. Stage 0 updates N rows of a unit one by one,
where stages 1 to 3 update one: the same kernel on the same sizes, hence the same bits. With
ZeRO-Offload it runs on the host (Ren et al., arXiv 2101.06840, section 5.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from zerosim.base.config import EngineConfig
from zerosim.base.tiers import Tier
from zerosim.schema.events import Purpose
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import hold, is_same_memory, release
from zerosim.train.device import on_host
from zerosim.train.engine.groups import GroupColumns, ParameterGroups
from zerosim.train.offload.copies import request_of


class UnitOptimizer:
    """The optimizer states of one unit's rows: fp32 master, momentum, variance.

    K = 12 bytes per parameter of a row. In fp32, parameters in the optimizer's tier are their own
    master.
    """

    def __init__(
        self,
        unit: str,
        rows: Sequence[torch.Tensor],
        config: EngineConfig,
        groups: ParameterGroups | None = None,
        cuts: Sequence[Sequence[GroupColumns]] | None = None,
        shared: Sequence[torch.Tensor] | None = None,
    ) -> None:
        """Copy the rows to fp32.

        Args:
            unit: name of the unit.
            rows: the parameters' first values, in the compute dtype.
            groups: parameter groups; by default one group, as configured.
            cuts: for each row, its columns by group; by default all in the first.
            shared: the rows themselves, if they are in the optimizer's tier, where in fp32 they
                are their own master; else None.
        """
        self._unit = unit
        self._groups = groups or ParameterGroups.single(config)
        self._cuts = cuts or [[GroupColumns(0, 0, row.numel())] for row in rows]
        self._tier = Tier.HOST if config.offloads_optimizer else Tier.DEVICE
        with self._in_tier():
            self._masters = self._make_masters(rows, shared)
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

    def read_groups(self) -> None:
        """Use the current settings of the parameter groups from the next update on."""
        for group, number in zip(self._adam.param_groups, self._numbers, strict=True):
            group.update(self._groups.hyperparameters(number))

    def prefetch(self) -> None:
        """Announce that the states will be fetched soon."""

    def fetch(self) -> None:
        """An update is about to begin: bring the states to the tier of the optimizer."""

    def store(self) -> None:
        """The update ended: bring the states back to their place."""

    def update(
        self, gradients: Sequence[torch.Tensor], factor: float, written: Sequence[torch.Tensor]
    ) -> None:
        """One step.

        Args:
            gradients: reduced gradients in the compute dtype, one per row.
            factor: the factor applied to them in fp32 first: averages, unscales, clips.
            written: rows in the compute dtype for the new values.
        """
        with self._in_tier():
            self._step(gradients, factor)
            for row, master in zip(written, self._masters, strict=True):
                if not is_same_memory(row, master):
                    row.copy_(master)

    def release(self) -> None:
        """The engine is closed."""
        for master in self._masters:
            release(master)
        for state in self._adam.state.values():
            release(state["exp_avg"])
            release(state["exp_avg_sq"])

    def _make_masters(
        self, rows: Sequence[torch.Tensor], shared: Sequence[torch.Tensor] | None
    ) -> list[torch.Tensor]:
        if shared is not None and shared[0].dtype is torch.float32:
            return list(shared)
        masters = []
        for row in rows:
            device = "cpu" if self._tier is Tier.HOST else row.device
            master = torch.empty(row.numel(), dtype=torch.float32, device=device)
            hold(master, Role.MASTER, self._unit, self._tier)
            self._fill(master, row)
            masters.append(master)
        return masters

    def _fill(self, master: torch.Tensor, row: torch.Tensor) -> None:
        if self._tier is Tier.DEVICE:
            master.copy_(row)
            return
        request = request_of(row, (Tier.DEVICE, Tier.HOST))
        with (
            labels.scope(unit=self._unit, purpose=Purpose.STORE_STATES),
            labels.copying(request),
        ):
            master.copy_(row)

    def _step(self, gradients: Sequence[torch.Tensor], factor: float) -> None:
        for own, pieces, gradient in zip(self._cuts, self._pieces, gradients, strict=True):
            row = gradient.float().mul_(factor)
            for cut, piece in zip(own, pieces, strict=True):
                piece.grad = row[cut.start : cut.stop]
        is_first = not self._adam.state
        self._adam.step()
        if is_first:
            for state in self._adam.state.values():
                hold(state["exp_avg"], Role.MOMENTUM, self._unit, self._tier)
                hold(state["exp_avg_sq"], Role.VARIANCE, self._unit, self._tier)
        for pieces in self._pieces:
            for piece in pieces:
                piece.grad = None

    @contextmanager
    def _in_tier(self) -> Iterator[None]:
        if self._tier is Tier.DEVICE:
            yield
            return
        with on_host():
            yield
