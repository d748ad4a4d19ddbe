"""Accumulation without wasted traffic.

A step has several micro-batches: step gets a list of (x, target). Sum the gradients of all of
them, on all ranks, and make one update with their average. Communicate as little as possible.

The model is given layer by layer (zerosim.puzzles.toy): toy.initial(layer) is a vector of
parameters, toy.forward(layer, weight, x) and toy.backward(layer, weight, x, gradient) compute,
toy.loss_gradient(y, target) begins the backward pass, toy.update(weight, gradient, momentum)
changes any part of a layer in place. You may use all of torch.distributed; each call of a
collective counts as the bytes that a ring would send. toy.gradients(parameters, x, target)
returns the gradients of all layers.

You pass if the parameters are bitwise equal to those of one process, and no rank sends more than
a single all-reduce of the gradients needs, for any number of micro-batches.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from zerosim.puzzles.toy import Toy


class Accumulating:
    """Trains the model on one of N ranks."""

    def __init__(self, toy: Toy, rank: int, ranks: int) -> None:
        raise NotImplementedError

    def step(self, batches: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        """One iteration on this rank's batch."""
        raise NotImplementedError

    def weights(self) -> list[torch.Tensor]:
        """The parameters of all layers, whole, on every rank."""
        raise NotImplementedError
