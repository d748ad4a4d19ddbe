"""Find the bug: micro-batches that count twice.

This program accumulates the gradients of several micro-batches before it updates; step gets a
list of (x, target). It ends without an error, but sends more than necessary and computes wrong
parameters. Check it first, count each micro-batch's contribution in Replay, then fix it.

You pass if the parameters are bitwise equal to those of one process, and no rank sends more than
a single all-reduce of the gradients needs, for any number of micro-batches.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.toy import Toy


class MicroTrainer:
    """Data-parallel training on one of N ranks; a step has several micro-batches."""

    def __init__(self, toy: Toy, rank: int, ranks: int) -> None:
        self.toy, self.rank, self.ranks = toy, rank, ranks
        self.parameters = [toy.initial(layer) for layer in range(toy.layers)]
        self.momenta = [torch.zeros_like(parameter) for parameter in self.parameters]

    def step(self, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """One iteration on this rank's micro-batches."""
        sums = [torch.zeros_like(parameter) for parameter in self.parameters]
        for x, target in batches:
            gradients = self.toy.gradients(self.parameters, x, target)
            for total, gradient in zip(sums, gradients, strict=True):
                total.add_(gradient)
                dist.all_reduce(total)
        for parameter, total, momentum in zip(self.parameters, sums, self.momenta, strict=True):
            total.div_(self.ranks * len(batches))
            self.toy.update(parameter, total, momentum)

    def weights(self) -> list[torch.Tensor]:
        """The parameters of all layers."""
        return self.parameters
