"""Find the bug: sometimes right: a solution."""

from __future__ import annotations

import torch
import torch.distributed as dist


def with_edge(rows: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """The previous rank's last row, then this rank's rows."""
    edge = torch.zeros_like(rows[0])
    sent = dist.isend(rows[-1].clone(), (rank + 1) % ranks)
    got = dist.irecv(edge, (rank - 1) % ranks)
    sent.wait()
    got.wait()
    return torch.cat([edge.unsqueeze(0), rows])
