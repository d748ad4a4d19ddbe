"""The implementations that can run, and whether each is installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from zerosim.base.config import Implementation, ModelName, RunConfig
from zerosim.base.config.model import trained_model
from zerosim.base.config.shapes import GPTConfig
from zerosim.systems.step import Step
from zerosim.train.models import Batches

_PIPELINES = (Implementation.GPIPE, Implementation.ONE_F_ONE_B)


def unavailable(implementation: Implementation, run: RunConfig) -> str:
    """Why an implementation cannot run here; "" if it can."""
    if implementation.name.startswith("DEEPSPEED") and find_spec("deepspeed") is None:
        return "DeepSpeed is not installed: make deepspeed"
    if implementation is Implementation.TENSOR_PARALLEL or implementation in _PIPELINES:
        return _undivided(implementation, run)
    if implementation is Implementation.HSDP and (run.ranks < 4 or run.ranks % 2):
        return f"{run.ranks} ranks do not make two rows of 2 or more: 4 do"
    return ""


def _undivided(implementation: Implementation, run: RunConfig) -> str:
    """Why a model's blocks cannot be divided among the ranks; "" if they can."""
    shape = None if run.model is ModelName.MLP else trained_model(run.model, run.shape)
    if not isinstance(shape, GPTConfig):
        return f"the {run.model} has no blocks to divide: --model gpt-tiny"
    number, words = shape.heads, "heads"
    if implementation in _PIPELINES:
        number, words = shape.layers, "blocks"
    if number % run.ranks == 0:
        return ""
    divisors = [str(count) for count in range(2, number + 1) if number % count == 0]
    return f"{run.ranks} ranks do not divide {number} {words}: {' or '.join(divisors)} do"


def make_step(implementation: Implementation, run: RunConfig, batches: Batches) -> Step:
    """The step of an implementation; it is called on every rank, after all ranks have joined."""
    module, _, function = implementation.run_by.rpartition(".")
    home = import_module(f"zerosim.systems.{module}")
    maker: Callable[[RunConfig, Batches], Step] = getattr(home, function)
    return maker(run, batches)
