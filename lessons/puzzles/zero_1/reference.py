"""ZeRO-1: optimizer states partitioned: a solution."""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.toy import Toy


class Zero1:
    """Trains the model on one of N ranks; optimizer states are partitioned."""

    def __init__(self, toy: Toy, rank: int, ranks: int) -> None:
        self.toy, self.rank, self.ranks = toy, rank, ranks
        self.parameters = [toy.initial(layer) for layer in range(toy.layers)]
        size = toy.elements // ranks
        self.own = slice(rank * size, (rank + 1) * size)
        self.momenta = [torch.zeros(size) for _ in self.parameters]

    def step(self, x: torch.Tensor, target: torch.Tensor) -> None:
        """One iteration on this rank's batch."""
        gradients = self.toy.gradients(self.parameters, x, target)
        for layer, gradient in enumerate(gradients):
            shard = torch.empty_like(self.momenta[layer])
            dist.reduce_scatter_tensor(shard, gradient)
            shard /= self.ranks
            parameter = self.parameters[layer]
            self.toy.update(parameter[self.own], shard, self.momenta[layer])
            dist.all_gather_into_tensor(parameter, parameter[self.own].clone())

    def weights(self) -> list[torch.Tensor]:
        """The parameters of all layers, whole, on every rank."""
        return self.parameters
