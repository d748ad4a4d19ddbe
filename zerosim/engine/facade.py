"""The optimizer, the scheduler and the dataloader that `initialize` returns beside the engine.

The optimizer's parameter groups are what the engine's Adam reads before each update, so a scheduler
of PyTorch's works on them. Imports torch and zerosim's L0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NoReturn

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

from zerosim.collectives import Group
from zerosim.config import EngineConfig
from zerosim.dsconfig import Schedule
from zerosim.engine.groups import BETAS, EPS, LR, WEIGHT_DECAY, ParameterGroups, adam_settings
from zerosim.errors import ConfigError, first_line

_CLIENTS = (torch.optim.Adam, torch.optim.AdamW)
_DECOUPLED = "decoupled_weight_decay"
_REFUSED_OPTIONS = ("amsgrad", "maximize")


class EngineOptimizer(torch.optim.Optimizer):
    """What updates the parameters is the engine; its hyperparameters are here.

    Attributes:
        client: the optimizer that the program brought, whose parameter groups these are.
    """

    def __init__(
        self,
        parameters: Iterable[Any],
        defaults: dict[str, Any],
        client: torch.optim.Optimizer | None = None,
    ) -> None:
        """Take over parameter groups, as `torch.optim.Optimizer` does."""
        self.client = client
        self.loss_scale = 1.0
        super().__init__(parameters, defaults)
        if client is not None:
            self.param_groups = client.param_groups

    @property
    def cur_scale(self) -> float:
        """The loss scale, under DeepSpeed's name."""
        return self.loss_scale

    def step(self, closure: Any = None) -> NoReturn:  # noqa: ARG002
        """Refuse: the engine updates.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("optimizer.step() is the engine's business: call engine.step()")

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT002 - PyTorch's
        """Do nothing: the engine's gradients begin anew after each update."""

    def state_dict(self) -> NoReturn:
        """Refuse: each rank has a part of the states.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("optimizer states are divided among the ranks: zerosim saves none yet")

    def load_state_dict(self, state_dict: Any) -> NoReturn:  # noqa: ARG002
        """Refuse: each rank has a part of the states.

        Raises:
            ConfigError: always.
        """
        self.state_dict()

    def note_step(self) -> None:
        """Tell PyTorch's schedulers that an update was done, which they ask for before theirs."""
        for optimizer in (self, self.client):
            if optimizer is not None:
                optimizer._opt_called = True  # type: ignore[attr-defined]  # noqa: SLF001


def make_optimizer(
    model: nn.Module,
    config: EngineConfig,
    parameters: Iterable[Any] | None,
    client: torch.optim.Optimizer | Callable[[Any], torch.optim.Optimizer] | None,
) -> tuple[EngineOptimizer, EngineConfig]:
    """The optimizer that `initialize` returns, and the configuration that it makes of Adam.

    Args:
        parameters: `model_parameters`: tensors, or groups as `torch.optim` takes them.
        client: an optimizer of the program's own, or what makes one of the parameters.

    Raises:
        ConfigError: it is not Adam, or its groups are not the model's trainable parameters.
    """
    chosen = list(parameters) if parameters is not None else list(_trainable(model))
    try:
        if callable(client) and not isinstance(client, torch.optim.Optimizer):
            client = client(chosen)
        if client is not None:
            config = _as_client(config, client)
            optimizer = EngineOptimizer(list(_trainable(model)), adam_settings(config), client)
        else:
            optimizer = EngineOptimizer(chosen, adam_settings(config))
    except (TypeError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"model_parameters cannot be optimized: {first_line(error)}") from None
    _require_all(model, optimizer)
    for group in optimizer.param_groups:
        _require_adam(group)
    return optimizer, config


def groups_of(optimizer: EngineOptimizer) -> ParameterGroups:
    """The optimizer's groups, for the engine to read."""
    return ParameterGroups(
        optimizer.param_groups,
        {
            parameter: number
            for number, group in enumerate(optimizer.param_groups)
            for parameter in group["params"]
        },
    )


def _trainable(model: nn.Module) -> Iterable[nn.Parameter]:
    return (parameter for parameter in model.parameters() if parameter.requires_grad)


def _as_client(config: EngineConfig, client: torch.optim.Optimizer) -> EngineConfig:
    if type(client) not in _CLIENTS:
        raise ConfigError(
            f"optimizer is a {type(client).__name__}: zerosim has torch.optim.Adam and AdamW"
        )
    if client.state:
        raise ConfigError("optimizer has done steps before: give one that has not")
    decoupled = {bool(group.get(_DECOUPLED)) for group in client.param_groups}
    if isinstance(client, torch.optim.AdamW):
        decoupled = {True}
    if len(decoupled) > 1:
        raise ConfigError(f"optimizer's groups differ in {_DECOUPLED}: expected one value")
    first = client.param_groups[0]
    return replace(
        config,
        learning_rate=float(first[LR]),
        beta1=first[BETAS][0],
        beta2=first[BETAS][1],
        epsilon=first[EPS],
        weight_decay=first[WEIGHT_DECAY],
        decoupled_weight_decay=decoupled.pop(),
    )


def _require_all(model: nn.Module, optimizer: EngineOptimizer) -> None:
    names = {parameter: name for name, parameter in model.named_parameters()}
    given = {one for group in optimizer.param_groups for one in group["params"]}
    if any(parameter not in names for parameter in given):
        raise ConfigError("model_parameters holds a tensor that is no parameter of the model")
    for parameter in _trainable(model):
        if parameter not in given:
            raise ConfigError(
                f"model_parameters leaves {names[parameter]} out, which asks for a gradient: give "
                "it, or call requires_grad_(False) on it"
            )


def _require_adam(group: dict[str, Any]) -> None:
    for name in _REFUSED_OPTIONS:
        if group.get(name):
            raise ConfigError(f"a parameter group has {name}: zerosim's Adam has not")
    if group.get("bias_correction") is False:
        raise ConfigError("a parameter group has no bias_correction: zerosim's Adam always has")
    beta1, beta2 = group[BETAS]
    EngineConfig(
        learning_rate=float(group[LR]),
        beta1=float(beta1),
        beta2=float(beta2),
        epsilon=group[EPS],
        weight_decay=group[WEIGHT_DECAY],
    )


class Scheduler:
    """A schedule of DeepSpeed's on the optimizer's groups; the engine steps it."""

    def __init__(self, optimizer: torch.optim.Optimizer, schedule: Schedule) -> None:
        """Set the learning rate that comes before the first step."""
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
        """An optimizer step was done; or so many of them, counted from 0."""
        after = self.last_batch_iteration + 1
        self.last_batch_iteration = after if last_batch_iteration is None else last_batch_iteration
        self._set()

    def state_dict(self) -> dict[str, int]:
        """Where it stands."""
        return {"last_batch_iteration": self.last_batch_iteration}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Go on from there."""
        self.last_batch_iteration = state_dict["last_batch_iteration"]

    def _set(self) -> None:
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group[LR] = rate


def make_dataloader(
    data: Dataset[Any],
    group: Group,
    batch: int,
    collate: Callable[..., Any] | None,
    *,
    drop_last: bool,
) -> DataLoader[Any]:
    """The data in micro-batches, shuffled and divided among the ranks as DeepSpeed does.

    Raises:
        ConfigError: the data have no length.
    """
    if isinstance(data, IterableDataset) or not hasattr(data, "__len__"):
        raise ConfigError("training_data has no length: make a DataLoader of it yourself")
    sampler: DistributedSampler[Any] = DistributedSampler(
        data, num_replicas=group.size, rank=group.rank
    )
    return DataLoader(
        data,
        batch_size=batch,
        sampler=sampler,
        collate_fn=collate,
        drop_last=drop_last,
        pin_memory=torch.cuda.is_available(),
    )
