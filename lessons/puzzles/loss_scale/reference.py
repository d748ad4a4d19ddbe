"""A loss-scaled update that all ranks skip: a solution."""

from __future__ import annotations

import torch
import torch.distributed as dist


def update(
    parameter: torch.Tensor, shard: torch.Tensor, scale: float, rank: int, ranks: int
) -> float:
    """Update the parameter in place, or skip it; returns the scale of the next iteration."""
    overflow = torch.tensor(float(not torch.isfinite(shard).all()))
    dist.all_reduce(overflow, op=dist.ReduceOp.MAX)
    if overflow.item():
        return scale / 2
    own = parameter.view(ranks, -1)[rank]
    own -= shard / (scale * ranks) / 8
    dist.all_gather_into_tensor(parameter, own.clone())
    return scale
