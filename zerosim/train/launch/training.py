"""Training on one rank, in a process of its own or in a dry run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import nn

from zerosim.base.config import STAGE_NAMES, EngineConfig, Implementation, RunConfig
from zerosim.base.errors import ConfigError
from zerosim.schema.faults import Fault, FaultKind
from zerosim.systems.step import Step
from zerosim.trace import labels
from zerosim.trace.blocks import default_blocks
from zerosim.trace.faulty import installed
from zerosim.train.collectives import RankGroup
from zerosim.train.deepspeed.config import read_settings
from zerosim.train.deepspeed.initialize import open_engine
from zerosim.train.device import on_host
from zerosim.train.engine import Engine, initialize
from zerosim.train.launch.job import Job
from zerosim.train.launch.parallel import divide
from zerosim.train.models import Batches, build, context_of
from zerosim.train.models.tiling import tile_linears, tiled_units


def make_engine(job: Job, config: EngineConfig, device: torch.device, data: RankGroup) -> Engine:
    """A model, built identically on every rank, ready to train.

    Args:
        data: the ranks among which its states are divided.

    Raises:
        ConfigError: it cannot be trained as configured.
    """
    run = job.run
    with on_host():
        model = build(run.model, run.seed, shape=run.shape)
        if device.type != "cpu":  # its device at construction; a fake parameter cannot be moved
            model = model.to(device)
        config = _tiled(model, run, config)
        divide(model, run)
    if not job.deepspeed:
        return initialize(model, config, data, resume=run.resume)
    settings = replace(read_settings(job.deepspeed, data.size), engine=config)
    return open_engine(model, settings, data, resume=run.resume)


def _tiled(model: nn.Module, run: RunConfig, config: EngineConfig) -> EngineConfig:
    """Tile the model's large linear layers, if configured, and make units of the tiles."""
    if run.tiles == 1:
        return config
    blocks = config.units or tuple(name for name, _ in default_blocks(model))
    tile_linears(model, run.tiles)
    return replace(config, units=tiled_units(model, blocks))


def batches_of(run: RunConfig, data: RankGroup) -> Batches:
    """The input data of this rank.

    Args:
        data: the ranks that read different parts of the text.
    """
    return Batches(
        seed=run.seed,
        rank=data.rank,
        num_ranks=data.size,
        batch=run.batch,
        context=context_of(run.model, run.shape),
    )


def told(run: RunConfig, faults: Sequence[Fault], rank: int) -> RunConfig:
    """A run's options for this rank, with an injected difference from the others."""
    for fault in faults:
        if fault.rank == rank and fault.kind is FaultKind.SEED:
            run = replace(run, seed=run.seed + 1)
        if fault.rank == rank and fault.kind is FaultKind.BATCH:
            run = replace(run, batch=max(1, run.batch // 2))
    return run


def train_engine(
    engine: Engine,
    steps: int,
    read: Callable[[int, int], torch.Tensor],
    advance: Callable[[str], None],
) -> None:
    """Run the remaining steps, and close the engine.

    Args:
        read: this rank's micro-batch, int64 [B, s + 1], given iteration and micro-step.
        advance: called with the result of each step.

    Raises:
        ConfigError: no step remains.
    """
    if engine.iteration >= steps:
        raise ConfigError(
            f"steps is {steps}: the resumed run has already done {engine.iteration}; give more"
        )
    rate = engine.config.learning_rate
    for iteration in range(engine.iteration, steps):
        if (faults := installed()) is not None:
            try:
                faults.reads(iteration)
            except StopIteration:
                break
            if (times := faults.rate(iteration)) != 1:
                engine.set_learning_rate(rate * times)
        losses = []
        for micro_step in range(engine.config.accumulate):
            loss = engine(read(iteration, micro_step).to(engine.device))
            engine.backward(loss)
            losses.append(loss.item())
            if engine.is_boundary:
                mean = engine.average_loss(sum(losses) / len(losses))
            engine.step()
        advance(f"{STAGE_NAMES[engine.config.stage]}: loss {mean:.3f}")
    engine.close()


def train_other(
    step: Step, steps: int, who: Implementation, advance: Callable[[str], None]
) -> None:
    """Run the steps with another implementation.

    Args:
        advance: called with the result of each step.
    """
    for iteration in range(steps):
        loss = step(iteration)
        if loss is not None:
            labels.metric("loss", loss)
        advance(f"{who}: step {iteration + 1}")
