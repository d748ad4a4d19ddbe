"""Tensor parallelism with PyTorch's `parallelize_module`; models define the sharding of a block."""

from __future__ import annotations

import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from zerosim.base.config import RunConfig
from zerosim.systems.step import Step, adam, model_of, plain_step
from zerosim.train.models import Batches
from zerosim.train.models.parallel import divide_blocks


def tensor_parallel(run: RunConfig, batches: Batches) -> Step:
    """Every rank computes its part of each block on the data of all ranks."""
    model = model_of(run)
    divide_blocks(model, init_device_mesh("cpu", (dist.get_world_size(),)))
    divided = [one for one in model.parameters() if isinstance(one, DTensor)]
    whole = [one for one in model.parameters() if not isinstance(one, DTensor)]
    optimizer = adam([{"params": divided}, {"params": whole}])
    return plain_step(model, optimizer, batches.union)
