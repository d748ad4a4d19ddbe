"""Find the bug: a run that hangs: a solution."""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.toy import Toy


class LoggingTrainer:
    """Data-parallel training on one of N ranks."""

    def __init__(self, toy: Toy, rank: int, ranks: int) -> None:
        self.toy, self.rank, self.ranks = toy, rank, ranks
        self.parameters = [toy.initial(layer) for layer in range(toy.layers)]
        self.momenta = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.log: list[torch.Tensor] = []

    def step(self, x: torch.Tensor, target: torch.Tensor) -> None:
        """One iteration on this rank's batch."""
        gradients = self.toy.gradients(self.parameters, x, target)
        norm = gradients[0].double().square().sum()
        for gradient in gradients:
            dist.all_reduce(gradient)
            gradient.div_(self.ranks)
        dist.all_reduce(norm)
        if self.rank == 0:
            self.log.append(norm)
        for parameter, gradient, momentum in zip(
            self.parameters, gradients, self.momenta, strict=True
        ):
            self.toy.update(parameter, gradient, momentum)

    def weights(self) -> list[torch.Tensor]:
        """The parameters of all layers."""
        return self.parameters
