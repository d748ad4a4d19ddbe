"""Find the bug: right on some days.

Rows of a matrix are divided over N ranks, and each needs the last row of the rank before it: rank
r sends its last row to r + 1, the last rank to rank 0. The program is right on a quick machine,
most of the time. Check it as it is and see what the verdict says of the message, then mend it.

You pass if the rows are right, each message is waited for before it is read, no rank sends more
than one row, and it takes one round.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def with_edge(rows: torch.Tensor, rank: int, ranks: int) -> torch.Tensor:
    """The last row of the rank before, then this rank's rows."""
    edge = torch.zeros_like(rows[0])
    sent = dist.isend(rows[-1].clone(), (rank + 1) % ranks)
    dist.irecv(edge, (rank - 1) % ranks)
    sent.wait()
    return torch.cat([edge.unsqueeze(0), rows])
