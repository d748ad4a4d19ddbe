"""The engine with the interface that training loops written for DeepSpeed call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NoReturn

import torch
from torch import nn

from zerosim.base.config import DType, EngineConfig
from zerosim.base.errors import ConfigError
from zerosim.train.collectives import RankGroup
from zerosim.train.deepspeed.config import Settings
from zerosim.train.deepspeed.optimizer import EngineOptimizer, groups_of
from zerosim.train.engine import Engine
from zerosim.train.engine.groups import BETAS, LR

_SAVES = "zerosim writes no checkpoints: save engine.full_parameters(), called on every rank"
_FIXED = "the configuration determines this: set it there"
_NOT_HERE = {
    "save_checkpoint": _SAVES,
    "load_checkpoint": "zerosim reads no checkpoints: load weights into the model before",
    "save_16bit_model": _SAVES,
    "save_fp16_model": _SAVES,
    "state_dict": _SAVES,
    "load_state_dict": "load weights into the model before initialize()",
    "no_sync": "the stage decides when gradients are reduced",
    "set_gradient_accumulation_boundary": "zerosim counts the micro-steps itself",
    "set_train_batch_size": _FIXED,
    "set_train_micro_batch_size": _FIXED,
    "scale": "call engine.backward(loss), which scales it",
    "compile": "give torch.compile(model) to initialize()",
}


class DeepSpeedEngine(Engine):
    """The engine that `initialize` returns for DeepSpeed's arguments.

    Attributes that it lacks are looked up in the model.

    Attributes:
        optimizer: the parameter groups that the engine's Adam reads.
        lr_scheduler: stepped after each update that was not skipped; None without one.
        training_dataloader: the data loader of `training_data`; None without it.
        config_report: the effect of each key of the configuration.
        micro_steps: micro-steps done since the beginning.
    """

    def __init__(
        self,
        model: nn.Module,
        config: EngineConfig,
        group: RankGroup,
        optimizer: EngineOptimizer,
        settings: Settings,
        *,
        resumes: bool = False,
    ) -> None:
        """See `initialize.open_engine`."""
        super().__init__(model, config, group, groups_of(optimizer), resumes=resumes)
        self.optimizer = optimizer
        self.lr_scheduler: Any = None
        self.training_dataloader: Any = None
        self.config_report = settings.report()
        self.micro_steps = 0
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self._sizes = settings.sizes
        self._step_applied = False
        optimizer.loss_scale = self.loss_scale

    # called by the training loop

    def backward(  # type: ignore[override]  # DeepSpeed's returns the loss
        self,
        loss: torch.Tensor,
        retain_graph: bool = False,  # noqa: FBT002 - DeepSpeed's
        scale_wrt_gas: bool = True,  # noqa: FBT002 - DeepSpeed's
    ) -> torch.Tensor:
        """Compute gradients.

        Args:
            loss: scalar, of one micro-batch; gradients are averaged over micro-steps and ranks.
            retain_graph: refused.
            scale_wrt_gas: False if the loss was already divided by the accumulation steps.

        Returns:
            The loss, divided by the accumulation steps.

        Raises:
            ConfigError: `retain_graph` is set, or backward is called out of order.
        """
        if retain_graph:
            raise ConfigError("retain_graph is True: zerosim frees the graph after backward")
        count = self.config.accumulate
        super().backward(loss if scale_wrt_gas else loss * count)
        return loss / count if scale_wrt_gas else loss

    def step(self, lr_kwargs: dict[str, Any] | None = None) -> None:
        """Update at the boundary, then step the scheduler; count the micro-step otherwise.

        Args:
            lr_kwargs: for the scheduler's step.
        """
        before, skipped = self.iteration, self.skipped_steps
        super().step()
        self.micro_steps += 1
        self._step_applied = self.iteration > before and self.skipped_steps == skipped
        self.optimizer.loss_scale = self.loss_scale
        if self._step_applied:
            self.optimizer.note_step()
            if self.lr_scheduler is not None:
                self.lr_scheduler.step(**(lr_kwargs or {}))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The same as calling the engine."""
        return self(*args, **kwargs)

    def train(self, mode: bool = True) -> DeepSpeedEngine:  # noqa: FBT002 - PyTorch's
        """Put the model into training mode."""
        self.model.train(mode)
        return self

    def eval(self) -> DeepSpeedEngine:
        """Put the model into evaluation mode."""
        return self.train(mode=False)

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT002 - PyTorch's
        """Do nothing: gradients start over after each update."""

    def destroy(self) -> None:
        """The same as `close`."""
        self.close()

    # read by the training loop

    @property
    def module(self) -> nn.Module:
        """The model."""
        return self.model

    @property
    def global_rank(self) -> int:
        """This rank's index among the data-parallel ranks."""
        return self.group.rank

    @property
    def world_size(self) -> int:
        """Number of ranks that train together."""
        return self.group.size

    @property
    def dp_world_size(self) -> int:
        """Equal to `world_size`: all ranks are data parallel."""
        return self.group.size

    @property
    def global_steps(self) -> int:
        """Optimizer steps, including skipped ones."""
        return self.iteration

    @property
    def global_samples(self) -> int:
        """Samples of all steps so far, on all ranks."""
        return self.iteration * self._sizes.train

    def train_batch_size(self) -> int:
        """Samples of an optimizer step, on all ranks."""
        return self._sizes.train

    def train_micro_batch_size_per_gpu(self) -> int:
        """Samples of one forward on one rank."""
        return self._sizes.micro

    def gradient_accumulation_steps(self) -> int:
        """Micro-steps of an optimizer step."""
        return self.config.accumulate

    def is_gradient_accumulation_boundary(self) -> bool:
        """True in the last micro-step of an accumulation."""
        return self.is_boundary

    def was_step_applied(self) -> bool:
        """True if the last `step` changed parameters."""
        return self._step_applied

    def get_global_grad_norm(self) -> float | None:
        """Global gradient norm of the last update, before clipping; None without clipping."""
        return self.gradient_norm

    def get_lr(self) -> list[float]:
        """The learning rate of each parameter group."""
        return [group[LR] for group in self.optimizer.param_groups]

    def get_mom(self) -> list[tuple[float, float]]:
        """The betas of each parameter group."""
        return [tuple(group[BETAS]) for group in self.optimizer.param_groups]

    def gradient_clipping(self) -> float:
        """The norm to which gradients are clipped; 0 without clipping."""
        return self.config.clip or 0.0

    def zero_optimization(self) -> bool:
        """True in stages 1 to 3."""
        return self.config.stage > 0

    def zero_optimization_stage(self) -> int:
        """The stage."""
        return self.config.stage

    def fp16_enabled(self) -> bool:
        """True if the model computes in fp16."""
        return self.config.dtype is DType.FP16

    def bfloat16_enabled(self) -> bool:
        """True if the model computes in bf16."""
        return self.config.dtype is DType.BF16

    def parameters(self) -> Iterator[nn.Parameter]:
        """The model's parameters; in stage 3 they are empty while their unit is resharded."""
        return self.model.parameters()

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The model's parameters by name, as in `parameters`."""
        return self.model.named_parameters()

    def __getattr__(self, name: str) -> Any:
        """An attribute of the model; a DeepSpeed method that zerosim lacks raises when called."""
        if name in _NOT_HERE:
            return _refusing(name, _NOT_HERE[name])
        if name != "model" and hasattr(self.model, name):
            return getattr(self.model, name)
        raise AttributeError(f"neither the engine nor the model has {name!r}")


def _refusing(name: str, instead: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise ConfigError(f"{name}: {instead}")

    return refuse
