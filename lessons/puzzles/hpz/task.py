"""hpZ: backward gathers inside a node.

ZeRO-3 gathers every layer from all ranks twice, in forward and in backward. Links between nodes
are slow. hpZ of ZeRO++ keeps, after forward's gather, a second part of each layer on every
rank: together the ranks of one node have all of it, the secondary partition. Backward gathers
it within the node. Begin with ZeRO-3: 1/N of parameters, gradients and momentum on each rank.

Rank r is in node r // ranks_per_node. The model is given layer by layer (zerosim.puzzles.toy):
toy.initial(layer) is a vector of parameters, toy.forward(layer, weight, x) and
toy.backward(layer, weight, x, gradient) compute, toy.loss_gradient(y, target) begins the backward
pass, toy.update(weight, gradient, momentum) changes any part of a layer in place. You may use all
of torch.distributed. Each call of a collective counts as the bytes that a ring would send, and as
traffic between nodes if its group has ranks on several nodes.

You pass if the parameters are bitwise equal to those of one process, no rank sends more to other
nodes than one all-gather of the parameters and a reduce-scatter of the gradients, nor more in all
than this and an all-gather inside a node, and when a collective is called a rank holds at most
1/N of the parameters and momentum, the secondary partition (or, for layers after their backward,
1/N of the gradients instead), inputs of the layers, and three vectors of a layer's size.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.toy import Toy


class Hpz:
    """Trains the model on one of N ranks."""

    def __init__(self, toy: Toy, rank: int, ranks: int, ranks_per_node: int) -> None:
        raise NotImplementedError

    def step(self, x: torch.Tensor, target: torch.Tensor) -> None:
        """One iteration on this rank's batch."""
        raise NotImplementedError

    def weights(self) -> list[torch.Tensor]:
        """The parameters of all layers, whole, on every rank."""
        raise NotImplementedError
