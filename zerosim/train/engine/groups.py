"""Parameter groups: the learning rate and weight decay of each parameter.

A group is a dictionary, as in `torch.optim`, and is read before each update, so that a schedule can
change it. A row of a unit is split where its parameters change groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from zerosim.base.config import EngineConfig
from zerosim.train.engine.units import Unit

LR, BETAS, EPS, WEIGHT_DECAY = "lr", "betas", "eps", "weight_decay"


@dataclass(frozen=True, slots=True)
class GroupColumns:
    """Columns of a row that belong to one group."""

    group: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ParameterGroups:
    """The groups of a model's parameters.

    Attributes:
        settings: the groups, as in `torch.optim.Optimizer.param_groups`.
        places: the group of each parameter; the first group by default.
    """

    settings: Sequence[dict[str, Any]]
    places: Mapping[nn.Parameter, int] = field(default_factory=dict)

    @classmethod
    def single(cls, config: EngineConfig) -> ParameterGroups:
        """One group of all parameters."""
        return cls([adam_settings(config)])

    def hyperparameters(self, group: int) -> dict[str, Any]:
        """The current arguments of PyTorch's Adam."""
        settings = self.settings[group]
        return {
            LR: float(settings[LR]),
            BETAS: tuple(settings[BETAS]),
            EPS: settings[EPS],
            WEIGHT_DECAY: settings[WEIGHT_DECAY],
        }

    @property
    def learning_rate(self) -> float:
        """The learning rate of the first group."""
        return float(self.settings[0][LR])

    def set_learning_rate(self, learning_rate: float) -> None:
        """Use this learning rate for all groups."""
        for settings in self.settings:
            settings[LR] = learning_rate

    def cuts(self, unit: Unit, row: int) -> list[GroupColumns]:
        """A row of a unit, split at each change of group; padding belongs to the last parameter."""
        first, last = row * unit.columns, (row + 1) * unit.columns
        found: list[GroupColumns] = []
        for index, slot in enumerate(unit.slots):
            is_last = index == len(unit.slots) - 1
            begin = max(slot.offset, first) - first
            end = (last if is_last else min(slot.offset + slot.elements, last)) - first
            if begin >= end:
                continue
            group = self.places.get(slot.parameter, 0)
            if found and found[-1].group == group:
                begin = found.pop().start
            found.append(GroupColumns(group, begin, end))
        return found


def adam_settings(config: EngineConfig) -> dict[str, Any]:
    """The configuration's values under the names of `torch.optim`."""
    return {
        LR: config.learning_rate,
        BETAS: (config.beta1, config.beta2),
        EPS: config.epsilon,
        WEIGHT_DECAY: config.weight_decay,
    }
