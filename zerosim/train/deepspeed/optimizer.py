"""The optimizer that `initialize` returns.

The engine's Adam reads its parameter groups before each update, so PyTorch's schedulers work on
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NoReturn

import torch
from torch import nn

from zerosim.base.config import EngineConfig
from zerosim.base.errors import ConfigError, first_line
from zerosim.train.engine.groups import BETAS, EPS, LR, WEIGHT_DECAY, ParameterGroups, adam_settings

_CLIENTS = (torch.optim.Adam, torch.optim.AdamW)
_DECOUPLED = "decoupled_weight_decay"
_REFUSED_OPTIONS = ("amsgrad", "maximize")


class EngineOptimizer(torch.optim.Optimizer):
    """Parameter groups with hyperparameters; the engine updates the parameters.

    Attributes:
        client: the optimizer that the program passed, which owns these parameter groups.
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
        """Refuse, because the engine updates.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("optimizer.step() is called by the engine: call engine.step() instead")

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT002 - PyTorch's
        """Do nothing, because the engine's gradients start over after each update."""

    def state_dict(self) -> NoReturn:
        """Refuse, because each rank has only a part of the states.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            "optimizer states are divided among the ranks: zerosim cannot save them yet"
        )

    def load_state_dict(self, state_dict: Any) -> NoReturn:  # noqa: ARG002
        """Refuse, because each rank has only a part of the states.

        Raises:
            ConfigError: always.
        """
        self.state_dict()

    def note_step(self) -> None:
        """Signal an update to PyTorch's schedulers, which check for one before their step."""
        for optimizer in (self, self.client):
            if optimizer is not None:
                optimizer._opt_called = True  # type: ignore[attr-defined]  # noqa: SLF001


def make_optimizer(
    model: nn.Module,
    config: EngineConfig,
    parameters: Iterable[Any] | None,
    client: torch.optim.Optimizer | Callable[[Any], torch.optim.Optimizer] | None,
) -> tuple[EngineOptimizer, EngineConfig]:
    """The optimizer that `initialize` returns, and the Adam configuration that it implies.

    Args:
        parameters: `model_parameters`: tensors, or groups as `torch.optim` takes them.
        client: the program's own optimizer, or a function from parameters to an optimizer.

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
        raise ConfigError("optimizer has already stepped: pass a new one")
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
        raise ConfigError("model_parameters contains a tensor that is not a parameter of the model")
    for parameter in _trainable(model):
        if parameter not in given:
            raise ConfigError(
                f"model_parameters leaves {names[parameter]} out, which requires a "
                "gradient: give it, or call requires_grad_(False) on it"
            )


def _require_adam(group: dict[str, Any]) -> None:
    for name in _REFUSED_OPTIONS:
        if group.get(name):
            raise ConfigError(f"a parameter group has {name}: zerosim's Adam does not")
    if group.get("bias_correction") is False:
        raise ConfigError("a parameter group has no bias_correction: zerosim's Adam always does")
    beta1, beta2 = group[BETAS]
    EngineConfig(
        learning_rate=float(group[LR]),
        beta1=float(beta1),
        beta2=float(beta2),
        epsilon=group[EPS],
        weight_decay=group[WEIGHT_DECAY],
    )
