"""Gradient accumulation with PyTorch's DistributedDataParallel: micro-steps that are added up.

With `--no-sync` the gradients are reduced in the last micro-step only, as `no_sync()` promises;
without it in every one, which the sum does not need. Started by torchrun with the options of
`zerosim run`; it reads the number of micro-steps and the folder of the trace.
"""

# ruff: noqa: INP001 - a program beside the package, which never imports torch

from __future__ import annotations

import argparse
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import zerosim
from zerosim.base.config import ModelName
from zerosim.train.models import Batches, build, context_of

BATCH, STEPS = 2, 2


def main() -> None:
    """Train for two steps, recorded."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--no-sync", action="store_true")
    given, _ = parser.parse_known_args()
    dist.init_process_group("gloo")
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    context = context_of(ModelName.MLP)
    batches = Batches(seed=0, rank=rank, num_ranks=num_ranks, batch=BATCH, context=context)
    with zerosim.trace(given.out):
        module = DistributedDataParallel(build(ModelName.MLP, seed=0))
        optimizer = torch.optim.AdamW(module.parameters())
        for number in range(STEPS * given.accumulate):
            is_last = (number + 1) % given.accumulate == 0
            with module.no_sync() if given.no_sync and not is_last else nullcontext():
                loss = module(batches.at(number)) / given.accumulate
                loss.backward()
            if is_last:
                optimizer.step()
                optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
