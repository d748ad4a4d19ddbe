"""A loss-scaled update that all ranks skip.

In fp16 the loss is multiplied by a scale, and so are the gradients; if the scale is too large,
they become infinite or NaN. Gradients were reduce-scattered: `shard` is this rank's part of the
sum over N ranks, times the scale. If it is finite on all ranks, subtract 1/8 of the average
gradient from this rank's part of `parameter`, gather the rest, and return the scale unchanged. If
any rank's part is not finite, no rank may change anything: return half of the scale.

You pass if parameters and scale are right on every rank in four iterations, two of which
overflow, and no rank sends more than an all-gather of the parameters and a flag need.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def update(
    parameter: torch.Tensor, shard: torch.Tensor, scale: float, rank: int, ranks: int
) -> float:
    """Update the parameter in place, or skip it; returns the scale of the next iteration."""
    raise NotImplementedError
