"""PyTorch's fully sharded data parallelism, old and new."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from zerosim.base.config import RunConfig
from zerosim.systems.common import Step, adam, model_of, plain_step
from zerosim.train.models import Batches


def fsdp2(run: RunConfig, batches: Batches) -> Step:
    """`fully_shard` on each block and on the whole, as its tutorial does."""
    return _fully_sharded(run, batches)


def fsdp2_kept(run: RunConfig, batches: Batches) -> Step:
    """The same, and what was gathered in forward is kept until backward: ZeRO-2's traffic."""
    return _fully_sharded(run, batches, reshard_after_forward=False)


def fsdp2_bf16(run: RunConfig, batches: Batches) -> Step:
    """The same with bf16 on the way and fp32 in the shards."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    return _fully_sharded(run, batches, mp_policy=policy)


def hsdp(run: RunConfig, batches: Batches) -> Step:
    """The same on two rows of ranks: divided within a row, equal in both."""
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("r", "s"))
    return _fully_sharded(run, batches, mesh=mesh)


def fsdp1(run: RunConfig, batches: Batches) -> Step:
    """`FullyShardedDataParallel`: each block is one flat vector."""
    model = model_of(run)
    module = FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({type(block) for block in blocks_of(model)}),
        device_id=torch.device("cpu"),
        use_orig_params=True,
    )
    return plain_step(module, adam(module.parameters()), batches.at)


def _fully_sharded(run: RunConfig, batches: Batches, **options: Any) -> Step:
    model = model_of(run)
    for block in blocks_of(model):
        fully_shard(block, **options)
    fully_shard(model, **options)
    return plain_step(model, adam(model.parameters()), batches.at)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """A GPT's blocks, the MLP's hidden layers."""
    container = getattr(model, "blocks", None) or getattr(model, "hidden", None)
    assert isinstance(container, nn.ModuleList | nn.Sequential), "a model of ours has blocks"
    return list(container)
