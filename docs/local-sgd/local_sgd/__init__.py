"""Local SGD: each rank trains on its own, and every H steps all average their parameters.

Source: S. Stich, "Local SGD Converges Fast and Communicates Little" (arXiv 1805.09767).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


class LocalSGD(torch.optim.Optimizer):
    """An optimizer of each rank's own, whose parameters are averaged now and then.

    Attributes:
        every: H, steps from one average to the next.
        num_steps: done so far.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, every: int) -> None:
        super().__init__(optimizer.param_groups, {})
        self.local, self.every, self.num_steps = optimizer, every, 0

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """One step of this rank, and every H-th time the average over all."""
        loss = self.local.step(closure)
        self.num_steps += 1
        if self.num_steps % self.every == 0:
            self.average()
        return loss

    @torch.no_grad()
    def average(self) -> None:
        """All-reduce the parameters, as one buffer."""
        parameters = [one for group in self.param_groups for one in group["params"]]
        buffer = torch.cat([one.flatten() for one in parameters])
        dist.all_reduce(buffer)
        buffer /= dist.get_world_size()
        for one, part in zip(
            parameters, buffer.split([p.numel() for p in parameters]), strict=True
        ):
            one.copy_(part.view_as(one))
