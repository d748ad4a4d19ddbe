"""All-reduce, from both halves.

Each of N ranks has a vector of the same length, which need not divide by N. Return the sum over
all ranks, on every rank. Ranks stand in a ring: rank r sends to r + 1 only and receives from r - 1
only. Use dist.isend and dist.irecv, nothing else.

You pass if the sum is right bit by bit, each message holds a piece as torch.tensor_split(vector, N)
cuts it, summed over some ranks, no rank sends more than a ring has to, and it takes no more than
2 (N - 1) rounds.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def all_reduce(vector: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """Return the sum of all ranks' vectors."""
    raise NotImplementedError
