"""ZeRO-2: gradients are freed after use: a solution."""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.toy import Toy


class Zero2:
    """Trains the model on one of N ranks; optimizer states and gradients are partitioned."""

    def __init__(self, toy: Toy, rank: int, ranks: int) -> None:
        self.toy, self.rank, self.ranks = toy, rank, ranks
        self.parameters = [toy.initial(layer) for layer in range(toy.layers)]
        size = toy.elements // ranks
        self.own = slice(rank * size, (rank + 1) * size)
        self.momenta = [torch.zeros(size) for _ in self.parameters]

    def step(self, x: torch.Tensor, target: torch.Tensor) -> None:
        """One iteration on this rank's batch."""
        inputs = [x]
        for layer in range(self.toy.layers):
            inputs.append(self.toy.forward(layer, self.parameters[layer], inputs[-1]))
        gradient = self.toy.loss_gradient(inputs.pop(), target)
        shards = {}
        for layer in reversed(range(self.toy.layers)):
            parameter = self.parameters[layer]
            gradient, full = self.toy.backward(layer, parameter, inputs[layer], gradient)
            shards[layer] = torch.empty_like(self.momenta[layer])
            dist.reduce_scatter_tensor(shards[layer], full)
            del full
        for layer, parameter in enumerate(self.parameters):
            shards[layer] /= self.ranks
            self.toy.update(parameter[self.own], shards[layer], self.momenta[layer])
            dist.all_gather_into_tensor(parameter, parameter[self.own].clone())

    def weights(self) -> list[torch.Tensor]:
        """The parameters of all layers, whole, on every rank."""
        return self.parameters
