"""The engine: one optimizer step of a stage, as DeepSpeed users know it.

    engine = zerosim.initialize(model, EngineConfig(stage=3))
    for batch in batches:
        loss = engine(batch)
        engine.backward(loss)
        engine.step()

Imports torch, zerosim's L0, collectives and trace.labels. Never theory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from zerosim.collectives import (
    BackgroundExecutor,
    Group,
    InlineExecutor,
    make_collectives,
    world,
)
from zerosim.config import DType, EngineConfig
from zerosim.engine.buckets import plan_buckets
from zerosim.engine.flat import FlatUnit
from zerosim.engine.hooks import attach_hooks
from zerosim.engine.optimizer import make_optimizers
from zerosim.engine.scaling import LossScaler, clip_factor, gather_scalars, squared_norm
from zerosim.engine.stage import Context, Stage
from zerosim.engine.stage0 import DataParallel
from zerosim.engine.stage1 import OptimizerPartition
from zerosim.engine.stage2 import GradientPartition
from zerosim.engine.stage3 import ParameterPartition
from zerosim.engine.units import ROOT, partition
from zerosim.errors import ConfigError, ZerosimError
from zerosim.events import Phase, Purpose
from zerosim.trace import labels
from zerosim.trace.sink import Description

TORCH_DTYPES = {
    DType.FP32: torch.float32,
    DType.BF16: torch.bfloat16,
    DType.FP16: torch.float16,
}
STAGES: dict[int, type[Stage]] = {
    0: DataParallel,
    1: OptimizerPartition,
    2: GradientPartition,
    3: ParameterPartition,
}


class EngineState(StrEnum):
    """What may be called next."""

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
        gradient_norm: global norm of the last step, if it was clipped; else None.
        skipped_steps: steps that all ranks left out because of an overflow.
    """

    def __init__(self, model: nn.Module, config: EngineConfig, group: Group) -> None:
        """See `initialize`."""
        self.model = model
        self.config = config
        self.iteration = 0
        self.micro_step = 0
        self.gradient_norm: float | None = None
        self.skipped_steps = 0
        self._device = next(iter(model.parameters())).device
        self._dtype = TORCH_DTYPES[config.dtype]
        self._state = EngineState.READY
        units = partition(model, group.size, config.units)
        in_background = config.overlap and group.size > 1
        self._executor = BackgroundExecutor(self._device) if in_background else InlineExecutor()
        self._collectives = make_collectives(
            config.collectives, group, self._executor, config.chunk_bytes
        )
        self._units = [
            FlatUnit(unit, group.size, group.rank, self._dtype, self._device) for unit in units
        ]
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.data = buffer.data.to(self._dtype)
        buckets = plan_buckets(self._units, group.size, config.bucket_elements)
        context = Context(config, self._collectives, self._units, buckets)
        self._describe(context)
        self._broadcast_initial_state()
        self._stage = STAGES[config.stage](context)
        self._trained = [flat for flat in self._units if flat.unit.trainable]
        self._optimizers = make_optimizers(
            self._trained, [self._stage.parameter_rows(flat) for flat in self._trained], config
        )
        self._scaler = LossScaler(config)
        self._unfinished: dict[str, FlatUnit] = {}
        self._uses: Counter[str] = Counter()
        self._spans: dict[str, int | None] = {}
        self._hooks = attach_hooks(self._units, self)

    # what a training loop calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the model forward; floating point inputs are cast to the compute dtype.

        Without gradients (`torch.no_grad`) this is an evaluation and belongs to no iteration.
        """
        training = torch.is_grad_enabled()
        if training and self._state is EngineState.BACKWARDED:
            raise ConfigError("forward after backward: call engine.step() first")
        args, kwargs = tree_map(self._cast, (args, kwargs))
        before = labels.position()
        if training:
            labels.enter(self.iteration, Phase.FORWARD, self.micro_step)
        else:
            labels.enter(before.iteration, Phase.OUTSIDE)
        with self._explained():
            output = self.model(*args, **kwargs)
        self._stage.finish_forward()
        if training:
            self._state = EngineState.FORWARDED
        else:
            labels.enter(before.iteration, before.phase, before.micro_step)
        return output

    def backward(self, loss: torch.Tensor) -> None:
        """Compute gradients; communicate what the stage communicates in backward.

        Args:
            loss: scalar, of one micro-batch; gradients are averaged over micro-steps and ranks.
        """
        if self._state is not EngineState.FORWARDED:
            raise ConfigError("backward without a forward before it: call engine(batch) first")
        labels.enter(self.iteration, Phase.BACKWARD, self.micro_step)
        self._unfinished = {flat.name: flat for flat in reversed(self._units)}
        scale = self._scaler.scale
        with self._explained():
            (loss if scale == 1.0 else loss * scale).backward()
        self._uses.clear()
        for flat in list(self._unfinished.values()):
            self._finish_unit(flat)
        self._stage.finish_backward(last_micro_step=self.is_boundary)
        self._state = EngineState.BACKWARDED

    def step(self) -> None:
        """Update the parameters if this was the last micro-step, else count it."""
        if self._state is not EngineState.BACKWARDED:
            raise ConfigError("step without a backward before it: call engine.backward(loss) first")
        self._state = EngineState.READY
        if not self.is_boundary:
            self.micro_step += 1
            return
        labels.enter(self.iteration, Phase.UPDATE, self.micro_step)
        overflowed = self._overflowed()
        if overflowed:
            self.skipped_steps += 1
            labels.metric("overflow", 1.0)
        else:
            self._update()
        self._stage.finish_update()
        if self._scaler.is_dynamic:
            labels.metric("loss scale", self._scaler.scale)
        self._scaler.update(overflowed=overflowed)
        labels.enter(self.iteration, Phase.OUTSIDE)
        self.iteration += 1
        self.micro_step = 0

    @property
    def is_boundary(self) -> bool:
        """True in the last micro-step of an accumulation."""
        return self.micro_step == self.config.accumulate - 1

    @property
    def loss_scale(self) -> float:
        """What the loss is multiplied with before backward; 1 unless fp16."""
        return self._scaler.scale

    @property
    def group(self) -> Group:
        """The ranks that train together."""
        return self._collectives.group

    def set_learning_rate(self, learning_rate: float) -> None:
        """Use another learning rate from the next step on."""
        for optimizer in self._optimizers.values():
            optimizer.set_learning_rate(learning_rate)

    def average_loss(self, loss: float) -> float:
        """Mean of a number over all ranks; call it between backward and step of the boundary."""
        labels.enter(self.iteration, Phase.UPDATE, self.micro_step)
        losses = gather_scalars(
            self._collectives, loss, Purpose.AVERAGE_LOSS, torch.float32, self._device
        )
        mean = sum(losses) / len(losses)
        labels.metric("loss", mean)
        return mean

    def full_parameters(self) -> dict[str, torch.Tensor]:
        """A copy of all parameters by name, whole on every rank, in the compute dtype."""
        found: dict[str, torch.Tensor] = {}
        for flat in self._units:
            whole = flat.flat
            if self.config.stage == 3:
                whole = flat.shard.new_empty(self.group.size, flat.unit.columns)
                whole[self.group.rank] = flat.shard
                if self.group.size > 1:
                    with labels.scope(unit=flat.name, purpose=Purpose.GATHER_PARAMETERS):
                        self._collectives.all_gather(whole).wait()
                whole = whole.view(-1)
            for slot in flat.unit.slots:
                piece = whole[slot.offset : slot.offset + slot.elements]
                found[slot.name] = piece.view(slot.shape).clone()
        return found

    def close(self) -> None:
        """Remove the hooks from the model and end the thread of the collectives."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._executor.close()

    # what the hooks tell (`hooks.Listener`)

    def module_begins(self, units: Sequence[FlatUnit]) -> None:
        """Parameters must be there before the module computes."""
        for flat in units:
            self._stage.before_forward(flat)
            self._uses[flat.name] += torch.is_grad_enabled()
        self._begin_compute(units[0])

    def module_ends(self, units: Sequence[FlatUnit], outputs: Sequence[torch.Tensor]) -> None:
        """Parameters are no longer needed by forward."""
        self._end_compute(units[0])
        for flat in units:
            if self.config.stage == 3 and any(flat.holds(output) for output in outputs):
                raise ConfigError(
                    f"unit {flat.name} returned weights of its own, which stage 3 frees: return "
                    "a clone, or give units=(...) that leave them to the root"
                )
            self._stage.after_forward(flat)

    def output_gradient(self, units: Sequence[FlatUnit]) -> None:
        """Parameters must be there before the module's backward computes."""
        for flat in units:
            if flat.name in self._unfinished:
                self._stage.before_backward(flat)
        if units[0].name in self._unfinished and self._spans.get(units[0].name) is None:
            self._begin_compute(units[0])

    def parameter_gradient(self, flat: FlatUnit, index: int) -> None:
        """One more gradient is there; the unit's last one ends its backward."""
        if flat.name not in self._unfinished:
            raise ConfigError(
                f"a gradient of unit {flat.name} came when none was expected: call "
                "engine.backward(loss) for loss.backward(), and checkpoint a module that is used "
                "twice with use_reentrant=False"
            )
        if flat.collect_gradient(index):
            self._finish_unit(flat)

    def input_gradients(self, units: Sequence[FlatUnit]) -> None:
        """Frozen parameters are needed until here, if this was the module's first use."""
        for flat in units:
            self._uses[flat.name] -= 1
            if self._uses[flat.name] > 0:
                continue
            if not flat.unit.trainable and flat.name in self._unfinished:
                self._finish_unit(flat)

    # parts

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self.config.stage == 3 and not isinstance(error, ZerosimError):
                error.add_note(
                    "in stage 3 a module's weights exist only while it computes itself: if "
                    "another module uses them, give units=(...) that leave them to the root"
                )
            raise

    def _finish_unit(self, flat: FlatUnit) -> None:
        self._end_compute(flat)
        del self._unfinished[flat.name]
        if flat.unit.trainable:
            flat.complete_gradient()
        self._stage.after_backward(flat, last_micro_step=self.is_boundary)

    def _overflowed(self) -> bool:
        if not self._scaler.is_dynamic:
            return False
        own = squared_norm([r for flat in self._trained for r in self._stage.gradient_rows(flat)])
        flag = 0.0 if math.isfinite(own) else 1.0
        if self.config.stage == 0:
            return flag > 0
        return any(
            gather_scalars(
                self._collectives, flag, Purpose.OVERFLOW_FLAG, torch.float32, self._device
            )
        )

    def _update(self) -> None:
        factor = 1.0 / (self.group.size * self.config.accumulate * self._scaler.scale)
        if self.config.clip is not None:
            self.gradient_norm = factor * self._summed_gradient_norm()
            factor *= clip_factor(self.gradient_norm, self.config.clip)
            labels.metric("gradient norm", self.gradient_norm)
        for flat in self._trained:
            with labels.compute(flat.name):
                self._optimizers[flat.name].update(self._stage.gradient_rows(flat), factor)
            self._stage.after_update(flat)

    def _summed_gradient_norm(self) -> float:
        """Norm of the summed gradient: the same additions in the same order in every stage."""
        rows = [self._stage.gradient_rows(flat) for flat in self._trained]
        squares = [squared_norm(of_one_rank) for of_one_rank in zip(*rows, strict=True)]
        if len(squares) < self.group.size:
            squares = gather_scalars(
                self._collectives,
                squares[0],
                Purpose.GRADIENT_NORM,
                torch.float64,
                self._device,
            )
        return math.sqrt(sum(squares))

    def _begin_compute(self, flat: FlatUnit) -> None:
        if flat.name != ROOT:
            self._spans[flat.name] = labels.begin_compute(flat.name)

    def _end_compute(self, flat: FlatUnit) -> None:
        labels.end(self._spans.pop(flat.name, None))

    def _broadcast_initial_state(self) -> None:
        if self.group.size == 1:
            return
        labels.enter(-1, Phase.SETUP)
        for flat in self._units:
            with labels.scope(unit=flat.name, purpose=Purpose.BROADCAST_STATE):
                self._collectives.broadcast(flat.flat, 0).wait()
        for name, buffer in self.model.named_buffers():
            with labels.scope(unit=name, purpose=Purpose.BROADCAST_STATE):
                whole = buffer.data.contiguous()
                self._collectives.broadcast(whole, 0).wait()
                buffer.data.copy_(whole)
        labels.enter(-1, Phase.OUTSIDE)

    def _describe(self, context: Context) -> None:
        labels.describe(
            Description(
                config=self.config.to_plain(),
                units=tuple(flat.unit.layout(self.group.size) for flat in self._units),
                buckets=tuple(context.buckets),
            )
        )

    def _cast(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.to(self._dtype)
        return value


def initialize(
    model: nn.Module, config: EngineConfig | None = None, group: Group | None = None
) -> Engine:
    """Make an engine that trains `model` on all ranks of `torch.distributed`.

    The model's parameters are moved into flat vectors, one for each unit, cast to the compute
    dtype, and made equal to rank 0's. Call it after the model was moved to its device, on every
    rank, with the same configuration.

    Args:
        model: any module; its parameters may be tied or frozen.
        config: stage, dtype and the rest; data parallel in bf16 by default.
        group: the ranks that train together; all of them by default, or this process alone if
            `torch.distributed` is not initialized.

    Returns:
        The engine; call it like the model, then `backward(loss)` and `step()`.

    Raises:
        ConfigError: the model has no trainable floating point parameter.
    """
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError(
            f"{type(model).__name__} has no trainable parameter: there is nothing to train"
        )
    return Engine(model, config or EngineConfig(), group or world())
