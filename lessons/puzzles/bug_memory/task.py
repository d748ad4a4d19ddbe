"""Find the bug: stage 3 that does not fit.

This program is ZeRO-3: each rank keeps 1/N of parameters, gradients and momentum. It trains
correctly, but runs out of memory as soon as the model is larger than a device. Check it first,
see which tensors are live when, then fix it.

You pass if the parameters are bitwise equal to those of one process, no rank sends more than two
all-gathers of the parameters and a reduce-scatter of the gradients need, and when a collective is
called a rank holds at most 1/N of parameters, gradients and momentum, inputs of the layers, and
three vectors of a layer's size.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.toy import Toy


class ShardedTrainer:
    """Trains the model on one of N ranks; parameters, gradients and states are partitioned."""

    def __init__(self, toy: Toy, rank: int, ranks: int) -> None:
        self.toy, self.rank, self.ranks = toy, rank, ranks
        size = toy.elements // ranks
        own = slice(rank * size, (rank + 1) * size)
        self.shards = [toy.initial(layer)[own].clone() for layer in range(toy.layers)]
        self.momenta = [torch.zeros(size) for _ in self.shards]

    def step(self, x: torch.Tensor, target: torch.Tensor) -> None:
        """One iteration on this rank's batch."""
        inputs = [x]
        cache = {}
        for layer in range(self.toy.layers):
            cache[layer] = self.gathered(layer)
            inputs.append(self.toy.forward(layer, cache[layer], inputs[-1]))
        gradient = self.toy.loss_gradient(inputs.pop(), target)
        gradients = {}
        for layer in reversed(range(self.toy.layers)):
            gradient, local = self.toy.backward(layer, cache[layer], inputs[layer], gradient)
            gradients[layer] = torch.empty_like(self.momenta[layer])
            dist.reduce_scatter_tensor(gradients[layer], local)
            del local
        for layer, shard in enumerate(self.shards):
            self.toy.update(shard, gradients[layer] / self.ranks, self.momenta[layer])

    def gathered(self, layer: int) -> torch.Tensor:
        """The parameters of a layer, from all ranks."""
        full = torch.empty(self.toy.elements)
        dist.all_gather_into_tensor(full, self.shards[layer])
        return full

    def weights(self) -> list[torch.Tensor]:
        """The parameters of all layers, whole, on every rank."""
        return [self.gathered(layer) for layer in range(self.toy.layers)]
