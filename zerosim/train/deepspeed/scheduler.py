"""The scheduler that `initialize` returns; the engine steps it."""

from __future__ import annotations

from typing import Any

import torch

from zerosim.base.errors import ConfigError
from zerosim.train.deepspeed.config import Schedule
from zerosim.train.deepspeed.optimizer import EngineOptimizer
from zerosim.train.engine.groups import LR


class Scheduler:
    """A schedule of DeepSpeed's on the optimizer's groups; the engine steps it."""

    def __init__(self, optimizer: torch.optim.Optimizer, schedule: Schedule) -> None:
        """Set the learning rate of the first step."""
        self.optimizer = optimizer
        self.schedule = schedule
        self.last_batch_iteration = -1
        self._bases = [float(group[LR]) for group in optimizer.param_groups]
        self._set()

    def get_lr(self) -> list[float]:
        """The learning rate of each group."""
        return [self.schedule.rate(self.last_batch_iteration, base) for base in self._bases]

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group, under PyTorch's name."""
        return self.get_lr()

    def step(self, last_batch_iteration: int | None = None) -> None:
        """Count an optimizer step, or set the number of steps, counted from 0."""
        after = self.last_batch_iteration + 1
        self.last_batch_iteration = after if last_batch_iteration is None else last_batch_iteration
        self._set()

    def state_dict(self) -> dict[str, int]:
        """The state of the schedule."""
        return {"last_batch_iteration": self.last_batch_iteration}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Restore a state."""
        self.last_batch_iteration = state_dict["last_batch_iteration"]

    def _set(self) -> None:
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group[LR] = rate


def make_scheduler(optimizer: EngineOptimizer, schedule: Schedule | None, given: Any) -> Any:
    """The program's own scheduler, else that of the configuration, if any.

    Args:
        given: a scheduler, or a function from the optimizer to a scheduler.

    Raises:
        ConfigError: it is not a scheduler, or works on another optimizer.
    """
    if given is None:
        return schedule and Scheduler(optimizer, schedule)
    if isinstance(given, torch.optim.lr_scheduler.LRScheduler):
        if given.optimizer is not optimizer.client:
            raise ConfigError(
                "lr_scheduler works on another optimizer: give its optimizer as "
                "optimizer=, or a function from the optimizer to a scheduler"
            )
        return given
    made = given(optimizer) if callable(given) else given
    if not hasattr(made, "step"):
        raise ConfigError(f"lr_scheduler is a {type(made).__name__}: expected one with step()")
    return made
