"""FSDP2 in its usual modes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from zerosim.base.config import RunConfig
from zerosim.systems.step import Step, adam, blocks_of, model_of, plain_step
from zerosim.train.models import Batches


def fsdp2(run: RunConfig, batches: Batches) -> Step:
    """`fully_shard` on each block and on the whole model, as in its tutorial."""
    return _fully_sharded(run, batches)


def fsdp2_kept(run: RunConfig, batches: Batches) -> Step:
    """The same, with gathered parameters kept from forward to backward: ZeRO-2's traffic."""
    return _fully_sharded(run, batches, reshard_after_forward=False)


def fsdp2_bf16(run: RunConfig, batches: Batches) -> Step:
    """The same with bf16 communication and fp32 shards."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    return _fully_sharded(run, batches, mp_policy=policy)


def hsdp(run: RunConfig, batches: Batches) -> Step:
    """The same on two rows of ranks: sharded within a row, replicated across rows."""
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("r", "s"))
    return _fully_sharded(run, batches, mesh=mesh)


def _fully_sharded(run: RunConfig, batches: Batches, **options: Any) -> Step:
    model = model_of(run)
    for block in blocks_of(model):
        fully_shard(block, **options)
    fully_shard(model, **options)
    return plain_step(model, adam(model.parameters()), batches.at)
