"""Overlap.

Backward computes gradients from the last layer to the first. The training loop calls
reducer.ready(gradient) as soon as a layer's gradient is complete and continues with the previous
layer, then reducer.finish() after backward. Average each gradient over all ranks, in place, while
the next layer computes. The same reducer serves every iteration.

You pass if the parameters are bitwise equal to those of one process, no rank sends more than an
all-reduce of all gradients needs, and the reduction of each layer except the last to compute
overlaps the computation of another layer.
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
