"""Buckets: a solution."""

from __future__ import annotations

import torch
import torch.distributed as dist


def average(gradients: list[torch.Tensor], bucket: int, ranks: int) -> None:
    """Average gradients over all ranks in place, in buckets of at most `bucket` elements."""
    waiting: list[torch.Tensor] = []
    for gradient in gradients:
        if sum(one.numel() for one in waiting) + gradient.numel() > bucket:
            _flush(waiting, ranks)
            waiting = []
        waiting.append(gradient)
    _flush(waiting, ranks)


def _flush(waiting: list[torch.Tensor], ranks: int) -> None:
    flat = torch.cat([gradient.view(-1) for gradient in waiting])
    dist.all_reduce(flat)
    flat /= ranks
    for gradient, part in zip(waiting, flat.split([g.numel() for g in waiting]), strict=True):
        gradient.copy_(part.view_as(gradient))
