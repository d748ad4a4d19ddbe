"""Overlap: inputs, and what is right."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from zerosim.puzzles.answer import Answer
from zerosim.puzzles.toy import Toy, trained_with


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Train with the program's reducer on one rank."""
    toy = Toy()
    return trained_with(_Trainer(toy, program.Reducer(ranks)), toy, rank, ranks)


class _Trainer:
    def __init__(self, toy: Toy, reducer: Any) -> None:
        self.toy, self.reducer = toy, reducer
        self.parameters = [toy.initial(layer) for layer in range(toy.layers)]
        self.momenta = [torch.zeros_like(one) for one in self.parameters]

    def weights(self) -> list[torch.Tensor]:
        """By layer."""
        return self.parameters

    def step(self, x: torch.Tensor, target: torch.Tensor) -> None:
        """One iteration."""
        found = self.toy.gradients(self.parameters, x, target, ready=self.reducer.ready)
        self.reducer.finish()
        for weight, gradient, momentum in zip(self.parameters, found, self.momenta, strict=True):
            self.toy.update(weight, gradient, momentum)
