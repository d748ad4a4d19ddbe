"""A tree for small messages: a solution."""

from __future__ import annotations

import torch
import torch.distributed as dist


def tree_all_reduce(vector: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """Return the sum of all ranks' vectors."""
    total = vector.clone()
    distance = 1
    while distance < ranks:
        other = rank ^ distance
        arrived = torch.empty_like(total)
        sent = dist.isend(total, other)
        got = dist.irecv(arrived, other)
        sent.wait()
        got.wait()
        total = total + arrived
        distance *= 2
    return total
