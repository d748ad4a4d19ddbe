"""All-gather around a ring.

Each of N ranks has one piece. Send all pieces to all ranks: return the list of N pieces, with
rank r's piece at index r. Rank r sends to r + 1 only and receives from r - 1 only. Use only
dist.isend and dist.irecv.

You pass if all pieces are right, each message holds one of them, no rank sends more than a ring
needs, and it takes no more than N - 1 rounds.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def all_gather(piece: torch.Tensor, rank: int, ranks: int) -> list[torch.Tensor]:
    """Return the pieces of all ranks, in their order."""
    raise NotImplementedError
