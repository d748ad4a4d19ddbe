"""Find the bug: sums of the wrong things.

This program averages gradients over all ranks, beginning with those that it considers most
urgent. It ends without an error, but its parameters are wrong from the first iteration on. Check
it first, see in Replay which tensors the ranks pass to each call, then fix it.

You pass if the parameters are bitwise equal to those of one process, and no rank sends more than
an all-reduce of the gradients needs.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.toy import Toy


class UrgentTrainer:
    """Data-parallel training on one of N ranks."""

    def __init__(self, toy: Toy, rank: int, ranks: int) -> None:
        self.toy, self.rank, self.ranks = toy, rank, ranks
        self.parameters = [toy.initial(layer) for layer in range(toy.layers)]
        self.momenta = [torch.zeros_like(parameter) for parameter in self.parameters]

    def step(self, x: torch.Tensor, target: torch.Tensor) -> None:
        """One iteration on this rank's batch."""
        gradients = self.toy.gradients(self.parameters, x, target)
        order = sorted(range(self.toy.layers), key=lambda one: float(gradients[one].norm()))
        for layer in reversed(order):
            dist.all_reduce(gradients[layer])
            gradients[layer].div_(self.ranks)
        for parameter, gradient, momentum in zip(
            self.parameters, gradients, self.momenta, strict=True
        ):
            self.toy.update(parameter, gradient, momentum)

    def weights(self) -> list[torch.Tensor]:
        """The parameters of all layers."""
        return self.parameters
