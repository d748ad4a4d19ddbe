"""A gather in int8 with an error bound.

ZeRO++ gathers parameters in int8. Cut this rank's shard into blocks of `block` elements; the step
of a block is its largest absolute value divided by 127. Send each value as the nearest whole
number of steps in int8, and each block's step in float32. Return all ranks' values, one after
another.

You pass if no value is off by more than half its block's step, zeros stay zeros, and no rank sends
more than an all-gather of one byte per element and four bytes per block needs.
"""

from __future__ import annotations

import torch
import torch.distributed as dist


def int8_gather(shard: torch.Tensor, block: int, ranks: int) -> torch.Tensor:
    """All ranks' shards, each value off by at most half its block's step."""
    raise NotImplementedError
