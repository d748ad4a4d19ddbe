"""Find the bug: sometimes right.

The rows of a matrix are divided among N ranks; each needs the last row of the previous rank: rank
r sends its last row to r + 1, the last rank to rank 0. On a fast machine the program is right
most of the time. Check it first and read the verdict on the message, then fix it.

You pass if the rows are right, each rank waits for its message before reading it, no rank sends
more than one row, and it takes one round.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def with_edge(rows: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """The previous rank's last row, then this rank's rows."""
    edge = torch.zeros_like(rows[0])
    sent = dist.isend(rows[-1].clone(), (rank + 1) % ranks)
    dist.irecv(edge, (rank - 1) % ranks)
    sent.wait()
    return torch.cat([edge.unsqueeze(0), rows])
