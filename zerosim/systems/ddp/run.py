"""DDP as its users wrap a model."""

from __future__ import annotations

from torch.nn.parallel import DistributedDataParallel

from zerosim.base.config import RunConfig
from zerosim.systems.step import Step, adam, model_of, plain_step
from zerosim.train.models import Batches


def ddp(run: RunConfig, batches: Batches) -> Step:
    """`DistributedDataParallel`: buckets of gradients are all-reduced during backward."""
    module = DistributedDataParallel(model_of(run))
    return plain_step(module, adam(module.parameters()), batches.at)
