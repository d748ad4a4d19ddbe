"""Preparation of a model for training: flat units, equal on all ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from zerosim.base.config import DType, EngineConfig
from zerosim.schema.events import Phase, Purpose
from zerosim.schema.manifest import BucketLayout
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import hold
from zerosim.trace.sink import Description
from zerosim.train.collectives import (
    Collectives,
    Executor,
    InlineExecutor,
    RankGroup,
    in_background,
)
from zerosim.train.device import rounded
from zerosim.train.engine.buckets import make_buffers, plan_buckets
from zerosim.train.engine.context import Context
from zerosim.train.engine.contiguous import Arena
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.engine.host_rows import MOST_LEAVING
from zerosim.train.engine.local import local_part
from zerosim.train.engine.made_late import as_made, device_of
from zerosim.train.engine.saving import Saved, open_disk
from zerosim.train.engine.stages import Stage
from zerosim.train.engine.units import partition
from zerosim.train.engine.update import Updater
from zerosim.train.offload.copies import Copies

TORCH_DTYPES = {
    DType.FP32: torch.float32,
    DType.BF16: torch.bfloat16,
    DType.FP16: torch.float16,
}


def prepare(
    model: nn.Module,
    config: EngineConfig,
    collectives: Collectives,
    executor: Executor,
    tensor: RankGroup,
    *,
    resumes: bool,
) -> tuple[Context, Saved]:
    """Partition a model's parameters into flat units, still without memory.

    Args:
        tensor: the tensor-parallel group of this rank.
        resumes: whether to continue from the state on the disk.

    Returns:
        The shared objects of the stages, and the values saved with the state on the disk.

    Raises:
        ConfigError: its parameters cannot be divided into units, or there is no state to resume.
        DiskError: the state is damaged.
        EnvironmentFault: the folder for the disk is not usable.
    """
    group, dtype = collectives.group, TORCH_DTYPES[config.dtype]
    device = device_of(model)
    units = [
        FlatUnit(unit, group.size, group.rank, dtype, device)
        for unit in partition(model, group.size, config.units)
    ]
    for buffer in model.buffers():
        if buffer.is_floating_point():
            buffer.data = buffer.data.to(dtype)
    buckets = plan_buckets(units, group.size, config.bucket_elements)
    arena = _gradient_arena(config, units, buckets)
    for flat in units:
        flat.arena = arena
    labels.describe(
        Description(
            config=config.to_plain(),
            units=tuple(flat.unit.layout(group.size) for flat in units),
            buckets=tuple(buckets),
        )
    )
    is_beside = config.overlap and config.offloads
    copies = in_background(device, "zerosim-copies") if is_beside else InlineExecutor()
    buffers = make_buffers(config, units[0], group.size)
    disk, saved = open_disk(config, units, group, tensor, resumes=resumes)
    context = Context(
        config, collectives, units, buckets, executor, Copies(copies), disk=disk, buffers=buffers
    )
    return context, saved


def take_over(
    model: nn.Module, context: Context, stage: Stage, updater: Updater, *, resumes: bool
) -> None:
    """Move parameters into their units, broadcast them from rank 0, keep this rank's part.

    This happens one unit at a time, so that at most one is complete if parameters are partitioned;
    for a model on the meta device, this holds at any time.

    Args:
        resumes: continue with the state of an earlier run, if possible.
    """
    collectives = context.collectives
    for flat in context.units:
        for slot in flat.unit.slots:  # as the model initialized them
            if not slot.parameter.is_meta:
                hold(local_part(slot.parameter), Role.PARAMETERS, flat.name)
    labels.enter(-1, Phase.SETUP)
    for flat in as_made(model, context.units, context.units[0].flat.device):
        flat.materialize()
        if context.communicates:
            with labels.scope(unit=flat.name, purpose=Purpose.BROADCAST_STATE):
                collectives.broadcast(flat.flat, 0).wait()
        found = stage.parameters.store.keep(flat, resumes=resumes)
        updater.adopt(flat, found=found)
        stage.parameters.shard(flat)
    for name, buffer in model.named_buffers():
        if context.communicates:
            with labels.scope(unit=name, purpose=Purpose.BROADCAST_STATE):
                values = buffer.data.contiguous()
                collectives.broadcast(values, 0).wait()
                buffer.data.copy_(values)
    labels.enter(-1, Phase.OUTSIDE)


def _gradient_arena(
    config: EngineConfig, units: Sequence[FlatUnit], buckets: Sequence[BucketLayout]
) -> Arena | None:
    """Memory for all gradients that a stage keeps on the device at once; None if not configured.

    Stages 0 and 1 keep those of all units. Stages 2 and 3 keep this rank's rows, or on an owner
    those of its units, and the complete gradients of two consecutive buckets: one is in flight
    while the next is computed. With an offloaded optimizer the rows are on the host, and pieces of
    earlier buckets are in flight.
    """
    if not config.contiguous_memory:
        return None
    trained = {flat.name: flat for flat in units if flat.unit.trainable}
    complete = {name: rounded(flat.num_ranks * flat.row_bytes) for name, flat in trained.items()}
    if config.stage < 2:
        num_bytes = sum(complete.values())
    else:
        stays = not config.offloads_optimizer
        at_once = 2 if stays else 2 + MOST_LEAVING
        # a copy may still be in flight when the next backward begins
        parts = [
            {(lap, segment.unit) for segment in bucket.segments}
            for lap in range(1 if stays else at_once)
            for bucket in buckets
        ]
        num_bytes = max(
            sum(complete[name] for _, name in set().union(*parts[first : first + at_once]))
            for first in range(len(parts))
        )
        if config.owners_update:
            owned = units[units[0].rank :: units[0].num_ranks]
            num_bytes += sum(complete.get(flat.name, 0) for flat in owned)
        elif stays:
            num_bytes += sum(rounded(flat.row_bytes) for flat in trained.values())
    some = next(iter(trained.values()))
    arena = Arena(some.flat.device, Role.GRADIENTS)
    arena.reserve(num_bytes)
    return arena
