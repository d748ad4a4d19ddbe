"""A model made ready to train: flat units, equal on all ranks.

Imports torch, zerosim's L0, collectives and trace.labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from zerosim.collectives import Collectives
from zerosim.config import DType, EngineConfig
from zerosim.engine.buckets import plan_buckets
from zerosim.engine.flat import FlatUnit
from zerosim.engine.stage import Context
from zerosim.engine.units import partition
from zerosim.events import Phase, Purpose
from zerosim.trace import labels
from zerosim.trace.sink import Description

TORCH_DTYPES = {
    DType.FP32: torch.float32,
    DType.BF16: torch.bfloat16,
    DType.FP16: torch.float16,
}


def prepare(model: nn.Module, config: EngineConfig, collectives: Collectives) -> Context:
    """Move a model's parameters into flat units and make them equal to rank 0's.

    Raises:
        ConfigError: its parameters cannot be divided into units.
    """
    group, dtype = collectives.group, TORCH_DTYPES[config.dtype]
    device = next(iter(model.parameters())).device
    units = [
        FlatUnit(unit, group.size, group.rank, dtype, device)
        for unit in partition(model, group.size, config.units)
    ]
    for buffer in model.buffers():
        if buffer.is_floating_point():
            buffer.data = buffer.data.to(dtype)
    buckets = plan_buckets(units, group.size, config.bucket_elements)
    labels.describe(
        Description(
            config=config.to_plain(),
            units=tuple(flat.unit.layout(group.size) for flat in units),
            buckets=tuple(buckets),
        )
    )
    if group.size > 1:
        _broadcast(model, units, collectives)
    return Context(config, collectives, units, buckets)


def _broadcast(model: nn.Module, units: Sequence[FlatUnit], collectives: Collectives) -> None:
    labels.enter(-1, Phase.SETUP)
    for flat in units:
        with labels.scope(unit=flat.name, purpose=Purpose.BROADCAST_STATE):
            collectives.broadcast(flat.flat, 0).wait()
    for name, buffer in model.named_buffers():
        with labels.scope(unit=name, purpose=Purpose.BROADCAST_STATE):
            whole = buffer.data.contiguous()
            collectives.broadcast(whole, 0).wait()
            buffer.data.copy_(whole)
    labels.enter(-1, Phase.OUTSIDE)
