"""DDP with ZeroRedundancyOptimizer."""

from __future__ import annotations

import torch
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from zerosim.base.config import RunConfig
from zerosim.systems.step import LEARNING_RATE, Step, model_of, plain_step
from zerosim.train.models import Batches


def ddp_zero(run: RunConfig, batches: Batches) -> Step:
    """DDP, and each rank updates a part of the parameters and broadcasts it."""
    module = DistributedDataParallel(model_of(run))
    optimizer = ZeroRedundancyOptimizer(
        module.parameters(),
        torch.optim.AdamW,
        lr=LEARNING_RATE,
        weight_decay=0.0,
        fused=True,
    )
    return plain_step(module, optimizer, batches.at)
