"""A stage of a pipeline that puzzles train: layers, their gradients, and stored activations.

Its numbers are those of `toy`: exact in any order of additions.
"""

from __future__ import annotations

import torch

from zerosim.puzzles.toy import WIDTH, Toy, layer_gradients, layer_output
from zerosim.schema.events import Phase
from zerosim.trace import labels

LAYERS = 4
"""Layers of a stage."""


class Stage:
    """One of the stages; the first has the inputs of all micro-batches, the last their targets.

    Attributes:
        shape: shape of messages between stages, forward and backward.
        kept: micro-batches whose forward has run and whose backward has not.
    """

    def __init__(self, number: int, stages: int, iteration: int = 0) -> None:
        """Stage `number` of this many, counted from 0."""
        self._iteration = iteration
        self._toy = Toy()
        self._number, self._is_last = number, number == stages - 1
        own = range(number * LAYERS, (number + 1) * LAYERS)
        self._weights = [self._toy.initial(layer) for layer in own]
        self._gradients = [torch.zeros_like(weight) for weight in self._weights]
        self._inputs: dict[int, list[torch.Tensor]] = {}
        self.shape = self._toy.batch(0, 0)[0].shape

    @property
    def kept(self) -> tuple[int, ...]:
        """Create a stage; see the class."""
        return tuple(self._inputs)

    def forward(self, micro: int, x: torch.Tensor | None) -> torch.Tensor:
        """The output of a micro-batch for the next stage, of `shape`.

        Args:
            x: the output of the previous stage; None on the first, which has its own input.
        """
        labels.enter(self._iteration, Phase.FORWARD, micro)
        with labels.compute(f"stage {self._number}"):
            inputs = [self._toy.batch(0, 0, micro)[0].clone() if x is None else x]
            for weight in self._weights:
                inputs.append(layer_output(weight, inputs[-1]))
            self._inputs[micro] = inputs
            return inputs[-1]

    def backward(self, micro: int, output_gradient: torch.Tensor | None) -> torch.Tensor:
        """The gradient of a micro-batch for the previous stage, of `shape`; frees the stored
        inputs.

        Args:
            output_gradient: gradient from the next stage; None on the last stage, which
                computes its own.

        Raises:
            ValueError: there was no forward of this micro-batch.
        """
        labels.enter(self._iteration, Phase.BACKWARD, micro)
        if micro not in self._inputs:
            raise ValueError(f"backward of micro-batch {micro} before its forward")
        with labels.compute(f"stage {self._number}"):
            inputs = self._inputs.pop(micro)
            gradient = output_gradient
            if gradient is None:
                gradient = self._toy.loss_gradient(inputs[-1], self._toy.batch(0, 0, micro)[1])
            for layer in reversed(range(LAYERS)):
                given = layer_gradients(self._weights[layer], inputs[layer], gradient)
                gradient = given[0]
                self._gradients[layer] += given[1]
            return gradient

    def gradients(self) -> dict[str, torch.Tensor]:
        """Gradients of this stage's layers, summed over micro-batches, by name."""
        return {
            f"the gradient of layer {self._number * LAYERS + number}": gradient
            for number, gradient in enumerate(self._gradients)
        }

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes for formulas: elements of the stage, of a message, stored per micro-batch."""
        message = self.shape.numel()
        return {
            "stage": LAYERS * WIDTH * WIDTH,
            "message": message,
            "kept": (LAYERS + 1) * message,
        }


def summed(stages: int, micros: int) -> list[dict[str, torch.Tensor]]:
    """The gradients of each stage after all micro-batches, on one process."""
    all_stages = [Stage(number, stages, iteration=1) for number in range(stages)]
    for micro in range(micros):
        x = None
        for stage in all_stages:
            x = stage.forward(micro, x)
        gradient = None
        for stage in reversed(all_stages):
            gradient = stage.backward(micro, gradient)
    return [stage.gradients() for stage in all_stages]
