"""All-gather around a ring: a solution."""

from __future__ import annotations

import torch
import torch.distributed as dist


def all_gather(piece: torch.Tensor, rank: int, ranks: int) -> list[torch.Tensor]:
    """Return the pieces of all ranks, in their order."""
    pieces = [torch.zeros_like(piece) for _ in range(ranks)]
    pieces[rank] = piece
    for hop in range(ranks - 1):
        arrived = torch.empty_like(piece)
        sent = dist.isend(pieces[(rank - hop) % ranks], (rank + 1) % ranks)
        got = dist.irecv(arrived, (rank - 1) % ranks)
        sent.wait()
        got.wait()
        pieces[(rank - 1 - hop) % ranks] = arrived
    return pieces
