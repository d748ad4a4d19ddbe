"""All-reduce, from both halves.

Each of N ranks has a vector of the same length, which need not be divisible by N. Return the
sum over all ranks, on every rank. The ranks form a ring: rank r sends to r + 1 only and receives
from r - 1 only. Use only dist.isend and dist.irecv.

You pass if the sum is bitwise correct, each message holds a piece as torch.tensor_split(vector, N)
splits it, summed over some ranks, no rank sends more than a ring needs, and it takes no more than
2 (N - 1) rounds.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def all_reduce(vector: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """Return the sum of all ranks' vectors."""
    raise NotImplementedError
