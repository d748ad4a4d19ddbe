"""The engine: forward, backward and step of a ZeRO stage, with the interface of DeepSpeed's engine.

A program uses it like this:

    engine = zerosim.initialize(model, EngineConfig(stage=3))
    for batch in batches:
        loss = engine(batch)
        engine.backward(loss)
        engine.step()
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from zerosim.base.config import EngineConfig, Offload
from zerosim.base.errors import ConfigError, ZerosimError
from zerosim.schema.events import Phase, Purpose
from zerosim.trace import labels
from zerosim.train.collectives import (
    InlineExecutor,
    RankGroup,
    in_background,
    make_collectives,
    world,
)
from zerosim.train.device import on_device
from zerosim.train.engine.checkpoints import make_checkpoints
from zerosim.train.engine.groups import ParameterGroups
from zerosim.train.engine.local import full_tensor
from zerosim.train.engine.loss_scaling import gather_scalars
from zerosim.train.engine.made_late import device_of, require_makeable
from zerosim.train.engine.moments import StageHooks
from zerosim.train.engine.prepare import TORCH_DTYPES, prepare, take_over
from zerosim.train.engine.saving import Saver, describe
from zerosim.train.engine.stages import Stage
from zerosim.train.engine.tensor_parallel import TensorLabels, require_sound, tensor_group
from zerosim.train.engine.update import Updater


class EngineState(StrEnum):
    """The call that is allowed next."""

    READY = "ready"
    """A forward."""
    FORWARDED = "forwarded"
    """A backward, or another forward."""
    BACKWARDED = "backwarded"
    """A step."""


class Engine:
    """A model that trains on several ranks.

    Attributes:
        iteration: optimizer steps done or skipped.
        micro_step: position within the accumulation, counted from 0.
        skipped_steps: steps that all ranks skipped because of an overflow.
    """

    def __init__(
        self,
        model: nn.Module,
        config: EngineConfig,
        group: RankGroup,
        groups: ParameterGroups | None = None,
        *,
        resumes: bool = False,
    ) -> None:
        """See `initialize`.

        Args:
            groups: parameter groups of the optimizer; by default as configured.
        """
        self.model = model
        self.config = config
        self.iteration = 0
        self.micro_step = 0
        self.skipped_steps = 0
        self._state = EngineState.READY
        self._device = device_of(model)
        tensor = tensor_group(model)
        require_sound(config, tensor, group)
        # tensor parallelism calls collectives during computation: allow only one at a time
        is_beside = config.overlap and group.size > 1 and tensor.size == 1
        self._executor = (
            in_background(self._device, within=on_device) if is_beside else InlineExecutor()
        )
        self._collectives = make_collectives(
            config.collectives, group, self._executor, config.chunk_bytes
        )
        self._context, saved = prepare(
            model, config, self._collectives, self._executor, tensor, resumes=resumes
        )
        context = self._context
        self._units = context.units
        self._stage = Stage(context)
        groups = groups or ParameterGroups.single(config)
        self._updater = Updater(context, self._stage, groups, resumes=resumes)
        take_over(model, context, self._stage, self._updater, resumes=resumes)
        if resumes:
            self.iteration = saved["iteration"]
            self._updater.resume(saved["update"])
            self.skipped_steps = self.iteration - self._updater.updates
        self._saver = None
        if context.disk is not None and config.offload_optimizer is Offload.NVME:
            self._saver = Saver(context.disk, self._device)
        self._save()
        self._hooks = StageHooks(self._stage, self._units)
        self._tensor_labels = TensorLabels(self._units if tensor.size > 1 else ())
        self._checkpoints = make_checkpoints(context, tensor)
        self._speaks = weakref.finalize(self, labels.engine_ends, labels.description())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model forward; floating-point inputs are cast to the compute dtype.

        Without gradients (`torch.no_grad`) this is an evaluation and belongs to no iteration.
        """
        training = torch.is_grad_enabled()
        if training and self._state is EngineState.BACKWARDED:
            raise ConfigError("forward after backward: call engine.step() first")
        args, kwargs = tree_map(self._cast, (args, kwargs))
        before = labels.position()
        if training:
            labels.enter(self.iteration, Phase.FORWARD, self.micro_step)
            if args and isinstance(args[0], torch.Tensor) and args[0].dim():
                labels.setting("batch size", args[0].shape[0])
        else:
            labels.enter(before.iteration, Phase.OUTSIDE)
        with self._explained(), self._tensor_labels.labelled():
            output = self.model(*args, **kwargs)
        self._stage.parameters.finish_forward()
        self._checkpoints.finish_forward()
        if training:
            self._state = EngineState.FORWARDED
        else:
            labels.enter(before.iteration, before.phase, before.micro_step)
        return output

    def backward(self, loss: torch.Tensor) -> None:
        """Compute gradients, with the communication of the stage in backward.

        Args:
            loss: scalar, of one micro-batch; gradients are averaged over micro-steps and ranks.
        """
        if self._state is not EngineState.FORWARDED:
            raise ConfigError("backward without a forward before it: call engine(batch) first")
        if self._saver is not None:
            self._saver.settle()
        labels.enter(self.iteration, Phase.BACKWARD, self.micro_step)
        self._hooks.begin_backward(last_micro_step=self.is_boundary)
        scale = self.loss_scale
        with self._explained(), self._tensor_labels.labelled():
            (loss if scale == 1.0 else loss * scale).backward()
        self._hooks.end_backward()
        self._state = EngineState.BACKWARDED

    def step(self) -> None:
        """Update the parameters after the last micro-step; otherwise only count the micro-step."""
        if self._state is not EngineState.BACKWARDED:
            raise ConfigError("step without a backward before it: call engine.backward(loss) first")
        self._state = EngineState.READY
        if not self.is_boundary:
            self.micro_step += 1
            return
        labels.enter(self.iteration, Phase.UPDATE, self.micro_step)
        labels.setting("learning rate", self._updater.learning_rate)
        self.skipped_steps += self._updater.step()
        labels.enter(self.iteration, Phase.OUTSIDE)
        self.iteration += 1
        self.micro_step = 0
        self._save()

    @property
    def is_boundary(self) -> bool:
        """True in the last micro-step of an accumulation."""
        return self.micro_step == self.config.accumulate - 1

    @property
    def loss_scale(self) -> float:
        """The factor applied to the loss before backward; 1 unless fp16."""
        return self._updater.scaler.scale

    @property
    def gradient_norm(self) -> float | None:
        """Global gradient norm of the last step, if clipping is enabled; else None."""
        return self._updater.gradient_norm

    @property
    def device(self) -> torch.device:
        """The device on which the model computes."""
        return self._device

    @property
    def group(self) -> RankGroup:
        """The ranks that train together."""
        return self._collectives.group

    def set_learning_rate(self, learning_rate: float) -> None:
        """Use this learning rate from the next step on."""
        self._updater.set_learning_rate(learning_rate)

    def average_loss(self, loss: float) -> float:
        """Average a number over all ranks; call it between backward and the step that updates."""
        labels.enter(self.iteration, Phase.UPDATE, self.micro_step)
        losses = gather_scalars(
            self._collectives, loss, Purpose.AVERAGE_LOSS, torch.float32, self._device
        )
        mean = sum(losses) / len(losses)
        labels.metric("loss", mean)
        return mean

    def full_parameters(self) -> dict[str, torch.Tensor]:
        """A copy of all parameters by name, the same on every rank, in the compute dtype."""
        self._updater.finish()
        found: dict[str, torch.Tensor] = {}
        for flat in self._units:
            with self._stage.parameters.unsharded(flat):
                for slot in flat.unit.slots:
                    piece = flat.flat[slot.offset : slot.offset + slot.elements]
                    with labels.scope(unit=flat.name, purpose=Purpose.GATHER_PARAMETERS):
                        found[slot.name] = full_tensor(
                            slot.parameter, piece.view(slot.shape).clone()
                        )
        return found

    def close(self) -> None:
        """Remove the hooks from the model and stop the engine's threads."""
        self._updater.finish()
        self._hooks.close()
        self._tensor_labels.close()
        self._checkpoints.close()
        self._executor.close()
        self._context.copies.close()
        for flat in self._units:
            flat.release()
        self._stage.release()
        self._updater.release()
        if self._saver is not None:
            self._saver.close()
        elif self._context.disk is not None:
            self._context.disk.close()
        self._speaks()

    def _save(self) -> None:
        """Begin to commit the state on the disk as the last good one."""
        if self._saver is not None:
            units = describe(self._units)
            update = self._updater.saved()
            saved = {"iteration": self.iteration, "units": units, "update": update}
            self._saver.commit(saved)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._stage.parameters.sharded and not isinstance(error, ZerosimError):
                error.add_note(
                    "in stage 3, a module's weights exist only while the module itself computes: "
                    "if another module uses them, give units=(...) that leave them to the root"
                )
            labels.broke_off()
            raise

    def _cast(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.to(TORCH_DTYPES[self.config.dtype])
        return value


def initialize(
    model: nn.Module,
    config: EngineConfig | None = None,
    group: RankGroup | None = None,
    *,
    resume: bool = False,
) -> Engine:
    """Create an engine that trains `model` on all ranks of `torch.distributed`.

    The model's parameters are moved into flat vectors, one per unit, cast to the compute dtype, and
    broadcast from rank 0. Call it on every rank, after moving the model to its device, with the
    same configuration. A model on the meta device is materialized on PyTorch's default device,
    module by module with `reset_parameters`, and partitioned as it is materialized.

    Args:
        model: any module; its parameters may be tied or frozen.
        config: stage, dtype and the rest; data parallel in bf16 by default.
        group: the ranks that train together; all of them by default, or this process alone if
            `torch.distributed` is not initialized. For a model sharded by `parallelize_module`, the
            ranks that have the same shards; parameters that are not sharded must be equal on all
            ranks.
        resume: continue from the last state in the configuration's `nvme_path` that all ranks have;
            `Engine.iteration` is the number of its steps.

    Returns:
        The engine; call it like the model, then `backward(loss)` and `step()`.

    Raises:
        ConfigError: the model has no trainable floating-point parameter; or it is sharded and an
            option does not support that; or it is on the meta device and a module lacks
            `reset_parameters`; or there is no state to resume.
        DiskError: the state on the disk is damaged, or cannot be written.
        EnvironmentFault: the folder for the disk is not usable.
    """
    require_trainable(model)
    require_makeable(model)
    return Engine(model, config or EngineConfig(), group or world(), resumes=resume)


def require_trainable(model: nn.Module) -> None:
    """Check that the model has a trainable parameter.

    Raises:
        ConfigError: no parameter requires a gradient.
    """
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError(
            f"{type(model).__name__} has no trainable parameter: there is nothing to train"
        )
