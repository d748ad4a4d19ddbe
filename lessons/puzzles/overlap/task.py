"""Overlap.

Backward computes gradients from the last layer to the first. The training loop calls
reducer.ready(gradient) as soon as a layer's gradient is there and goes on with the layer before
it, then reducer.finish() when backward is over. Average each gradient over all ranks, in place,
while the next layer computes. The same reducer serves every iteration.

You pass if the parameters are bit by bit those of one process, no rank sends more than an
all-reduce of all gradients has to, and of each layer but the last to compute the reduction is
under way while another layer computes.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


class Reducer:
    """Averages gradients while backward goes on."""

    def __init__(self, ranks: int) -> None:
        raise NotImplementedError

    def ready(self, gradient: torch.Tensor) -> None:
        """A layer's gradient is complete; the layer before it computes next."""
        raise NotImplementedError

    def finish(self) -> None:
        """Backward is over; after this all gradients are averages."""
        raise NotImplementedError
