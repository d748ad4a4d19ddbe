"""A tree for small messages.

Sum a vector of a few numbers, such as a gradient's norm or an overflow flag, over N ranks, where
N is a power of two. Its bytes are negligible; each round of messages costs time. A ring needs 2
(N - 1) rounds. Return the sum on every rank in log2(N) rounds, with dist.isend and dist.irecv
only; a rank sends and receives one message in a round.

You pass if the sum is bitwise correct, each message holds the vector summed over some ranks, and
it takes no more than log2(N) rounds.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def tree_all_reduce(vector: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """Return the sum of all ranks' vectors."""
    raise NotImplementedError
