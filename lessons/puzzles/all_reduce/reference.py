"""All-reduce, from both halves: a solution."""

from __future__ import annotations

import torch
import torch.distributed as dist


def all_reduce(vector: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """Return the sum of all ranks' vectors."""
    pieces = list(torch.tensor_split(vector, ranks))
    for hop in range(ranks - 1):
        given, taken = (rank - 1 - hop) % ranks, (rank - 2 - hop) % ranks
        arrived = _pass_on(pieces[given], torch.empty_like(pieces[taken]), rank, ranks)
        pieces[taken] = pieces[taken] + arrived
    for hop in range(ranks - 1):
        given, taken = (rank - hop) % ranks, (rank - 1 - hop) % ranks
        arrived = _pass_on(pieces[given], torch.empty_like(pieces[taken]), rank, ranks)
        pieces[taken] = arrived
    return torch.cat(pieces)


def _pass_on(piece: torch.Tensor, arrived: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    sent = dist.isend(piece, (rank + 1) % ranks)
    got = dist.irecv(arrived, (rank - 1) % ranks)
    sent.wait()
    got.wait()
    return arrived
