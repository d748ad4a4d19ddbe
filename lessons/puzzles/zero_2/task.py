"""ZeRO-2: gradients are freed after use.

ZeRO-1 still holds the gradients of all layers at once. Write the backward loop yourself: as soon
as a layer's gradient is complete, reduce-scatter it, keep this rank's part, and free the rest
before the next layer computes.

The model is given layer by layer (zerosim.puzzles.toy): toy.initial(layer) is a vector of
parameters, toy.forward(layer, weight, x) and toy.backward(layer, weight, x, gradient) compute,
toy.loss_gradient(y, target) begins the backward pass, toy.update(weight, gradient, momentum)
changes any part of a layer in place. You may use all of torch.distributed; each call of a
collective counts as the bytes that a ring would send.

You pass if the parameters are bitwise equal to those of one process, no rank sends more than in
ZeRO-1, and when a collective is called a rank holds at most the parameters, 1/N of gradients and
momentum, inputs of the layers, and two vectors of a layer's size: its gradient, and a copy in
flight.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.toy import Toy


class Zero2:
    """Trains the model on one of N ranks."""

    def __init__(self, toy: Toy, rank: int, ranks: int) -> None:
        raise NotImplementedError

    def step(self, x: torch.Tensor, target: torch.Tensor) -> None:
        """One iteration on this rank's batch."""
        raise NotImplementedError

    def weights(self) -> list[torch.Tensor]:
        """The parameters of all layers, whole, on every rank."""
        raise NotImplementedError
