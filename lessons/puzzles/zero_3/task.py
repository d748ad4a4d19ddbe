"""ZeRO-3: gather, use, free.

Keep 1/N of everything: for each layer, only this rank's part of the parameters, gradients and
momentum. In forward and in backward, gather the parameters of a layer before it computes, and
free them afterwards.

The model is given layer by layer (zerosim.puzzles.toy): toy.initial(layer) is a vector of
parameters, toy.forward(layer, weight, x) and toy.backward(layer, weight, x, gradient) compute,
toy.loss_gradient(y, target) begins the backward pass, toy.update(weight, gradient, momentum)
changes any part of a layer in place. You may use all of torch.distributed; each call of a
collective counts as the bytes that a ring would send.

You pass if the parameters are bitwise equal to those of one process, no rank sends more than two
all-gathers of the parameters and a reduce-scatter of the gradients need, and when a collective is
called a rank holds at most 1/N of parameters, gradients and momentum, inputs of the layers, and
three vectors of a layer's size: its parameters, its gradient, and a copy in flight.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.toy import Toy


class Zero3:
    """Trains the model on one of N ranks."""

    def __init__(self, toy: Toy, rank: int, ranks: int) -> None:
        raise NotImplementedError

    def step(self, x: torch.Tensor, target: torch.Tensor) -> None:
        """One iteration on this rank's batch."""
        raise NotImplementedError

    def weights(self) -> list[torch.Tensor]:
        """The parameters of all layers, whole, on every rank."""
        raise NotImplementedError
