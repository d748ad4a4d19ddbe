"""hpZ: backward gathers inside a node: a solution."""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.toy import Toy


class Hpz:
    """Trains the model on one of N ranks; backward gathers from its node alone."""

    def __init__(self, toy: Toy, rank: int, ranks: int, ranks_per_node: int) -> None:
        self.toy, self.rank, self.ranks = toy, rank, ranks
        size = toy.elements // ranks
        own = slice(rank * size, (rank + 1) * size)
        self.shards = [toy.initial(layer)[own].clone() for layer in range(toy.layers)]
        self.momenta = [torch.zeros(size) for _ in self.shards]
        for first in range(0, ranks, ranks_per_node):
            members = list(range(first, first + ranks_per_node))
            group = dist.new_group(members)
            if rank in members:
                self.node = group
        part = toy.elements // ranks_per_node
        place = rank % ranks_per_node
        self.kept = slice(place * part, (place + 1) * part)

    def step(self, x: torch.Tensor, target: torch.Tensor) -> None:
        """One iteration on this rank's batch."""
        inputs = [x]
        secondary = []
        for layer in range(self.toy.layers):
            full = self.gathered(self.shards[layer])
            secondary.append(full[self.kept].clone())
            inputs.append(self.toy.forward(layer, full, inputs[-1]))
            del full
        gradient = self.toy.loss_gradient(inputs.pop(), target)
        gradients = {}
        for layer in reversed(range(self.toy.layers)):
            full = self.gathered(secondary.pop(), self.node)
            gradient, local = self.toy.backward(layer, full, inputs[layer], gradient)
            del full
            gradients[layer] = torch.empty_like(self.momenta[layer])
            dist.reduce_scatter_tensor(gradients[layer], local)
            del local
        for layer, shard in enumerate(self.shards):
            self.toy.update(shard, gradients[layer] / self.ranks, self.momenta[layer])

    def gathered(self, part: torch.Tensor, group: dist.ProcessGroup | None = None) -> torch.Tensor:
        """The parameters of a layer, from all ranks of a group."""
        full = torch.empty(self.toy.elements)
        dist.all_gather_into_tensor(full, part, group=group)
        return full

    def weights(self) -> list[torch.Tensor]:
        """The parameters of all layers, whole, on every rank."""
        return [self.gathered(shard) for shard in self.shards]
