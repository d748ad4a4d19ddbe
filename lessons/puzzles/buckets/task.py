"""Buckets.

Every call of a collective has a latency. Average a list of gradients over all ranks, in place,
with few calls: put gradients one after another into a flat bucket, reduce it before it would
exceed `bucket` elements, and begin a new one. Keep the order of the list; no gradient is
larger than a bucket.

You pass if the averages are bitwise correct, no rank sends more than an all-reduce of all
gradients needs, there are no more calls than filled buckets, and at each call at most two
buckets are in memory besides the gradients.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def average(gradients: list[torch.Tensor], bucket: int, ranks: int) -> None:
    """Average gradients over all ranks in place, in buckets of at most `bucket` elements."""
    raise NotImplementedError
