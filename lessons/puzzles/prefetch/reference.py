"""Prefetch: a solution."""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.toy import Toy


def prefetching_forward(toy: Toy, shards: list[torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """The output of the last layer, from partitioned parameters."""
    coming = _begin(toy, shards[0])
    for layer in range(toy.layers):
        work, full = coming
        work.wait()
        if layer + 1 < toy.layers:
            coming = _begin(toy, shards[layer + 1])
        x = toy.forward(layer, full, x)
        del full
    return x


def _begin(toy: Toy, shard: torch.Tensor) -> tuple[dist.Work, torch.Tensor]:
    full = torch.empty(toy.elements)
    work = dist.all_gather_into_tensor(full, shard, async_op=True)
    assert work is not None
    return work, full
