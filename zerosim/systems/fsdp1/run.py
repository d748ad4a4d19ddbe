"""FSDP1 as its users wrap a model."""

from __future__ import annotations

import torch
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

from zerosim.base.config import RunConfig
from zerosim.systems.step import Step, adam, blocks_of, model_of, plain_step
from zerosim.train.models import Batches


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
