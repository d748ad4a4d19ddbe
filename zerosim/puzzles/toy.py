"""A small model that puzzles train, layer by layer, and its result after training on all batches.

Each layer is one vector of parameters. Gradients are whole multiples of 1/256 and small, so that
sums of them are exact: results are equal bit by bit whatever the order of additions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from zerosim.puzzles.answer import Answer
from zerosim.schema.events import Phase
from zerosim.trace import labels

WIDTH = 48
LAYERS = 8
BATCH = 2
_GRID = 256
_LARGEST = 64
ITERATIONS = 2


class Toy:
    """The model: y = tanh(x W) in each layer, and SGD with momentum.

    Attributes:
        layers: number of layers, of `elements` parameters each.
        elements: elements of one layer.
        iteration: the next iteration, which the caller counts.
    """

    layers = LAYERS
    elements = WIDTH * WIDTH

    def __init__(self) -> None:
        """The state before iteration 0."""
        self.iteration = 0

    def initial(self, layer: int) -> torch.Tensor:
        """The parameters of a layer before training, shape (elements,)."""
        drawn = torch.Generator().manual_seed(300 + layer)
        return torch.randint(-32, 33, (self.elements,), generator=drawn).float() / 128

    def batch(self, rank: int, iteration: int, micro: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of a rank, each of shape (batch, width)."""
        drawn = torch.Generator().manual_seed(7000 + 100 * rank + 10 * iteration + micro)
        both = torch.randint(-8, 9, (2, BATCH, WIDTH), generator=drawn).float() / 8
        return both[0], both[1]

    def forward(self, layer: int, weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """The output of a layer, of the shape of its input."""
        labels.enter(self.iteration, Phase.FORWARD)
        with labels.compute(f"layers.{layer}"):
            return layer_output(weight, x)

    def backward(
        self, layer: int, weight: torch.Tensor, x: torch.Tensor, output_gradient: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Gradients of a layer's input and of its parameters.

        Args:
            x: input of its forward.
            output_gradient: gradient of its output.
        """
        labels.enter(self.iteration, Phase.BACKWARD)
        with labels.compute(f"layers.{layer}"):
            return layer_gradients(weight, x, output_gradient)

    def loss_gradient(self, y: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """The gradient of the squared distance, with respect to the last layer's output."""
        return _on_grid(y - target)

    def update(self, weight: torch.Tensor, gradient: torch.Tensor, momentum: torch.Tensor) -> None:
        """Change parameters and momentum in place, elementwise, so any slice can be passed."""
        labels.enter(self.iteration, Phase.UPDATE)
        momentum.mul_(0.5).add_(gradient)
        weight.sub_(momentum, alpha=0.125)

    def gradients(
        self,
        weights: list[torch.Tensor],
        x: torch.Tensor,
        target: torch.Tensor,
        ready: Callable[[torch.Tensor], object] | None = None,
    ) -> list[torch.Tensor]:
        """Gradients of all layers, for one batch on one process.

        Args:
            ready: called with each gradient as soon as it is computed.
        """
        inputs = [x]
        for layer, weight in enumerate(weights):
            inputs.append(self.forward(layer, weight, inputs[-1]))
        grad = self.loss_gradient(inputs.pop(), target)
        found = {}
        for layer in reversed(range(self.layers)):
            grad, found[layer] = self.backward(layer, weights[layer], inputs[layer], grad)
            if ready is not None:
                ready(found[layer])
        return [found[layer] for layer in range(self.layers)]

    def trained(self, ranks: int, iterations: int, micros: int = 1) -> list[torch.Tensor]:
        """The parameters after training on all ranks' batches on one process."""
        weights = [self.initial(layer) for layer in range(self.layers)]
        momenta = [torch.zeros_like(weight) for weight in weights]
        for iteration in range(iterations):
            sums = [torch.zeros_like(weight) for weight in weights]
            for rank in range(ranks):
                for micro in range(micros):
                    given = self.gradients(weights, *self.batch(rank, iteration, micro))
                    sums = [a + b for a, b in zip(sums, given, strict=True)]
            for weight, total, momentum in zip(weights, sums, momenta, strict=True):
                self.update(weight, total / (ranks * micros), momentum)
        return weights

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes for formulas: parameters of the model and of a layer, bytes of activations."""
        inputs = (self.layers + 1) * BATCH * WIDTH * 4
        return {
            "elements": self.layers * self.elements,
            "layer": self.elements,
            "layers": self.layers,
            "activations": inputs,
        }


def layer_output(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The activation of one layer, in the shape of its input."""
    return torch.tanh(x @ weight.view(WIDTH, WIDTH))


def layer_gradients(
    weight: torch.Tensor, x: torch.Tensor, output_gradient: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of one layer's input and of its parameters."""
    matrix = weight.view(WIDTH, WIDTH)
    output = torch.tanh(x @ matrix)
    inner = output_gradient * (1 - output * output)
    return _on_grid(inner @ matrix.T), _on_grid(x.T @ inner).view(-1)


def trained_with(trainer: Any, toy: Toy, rank: int, ranks: int, *, micros: int = 0) -> Answer:
    """Run some steps of a program's trainer, and return the correct result.

    Args:
        trainer: its `step` gets a batch, and its `weights` are a list of layers.
        micros: number of micro-batches in a step, as a list; 0 for a single batch.
    """
    for iteration in range(ITERATIONS):
        toy.iteration = iteration
        labels.enter(iteration, Phase.FORWARD)
        if micros:
            trainer.step([toy.batch(rank, iteration, micro) for micro in range(micros)])
        else:
            trainer.step(*toy.batch(rank, iteration))
    labels.enter(ITERATIONS - 1, Phase.OUTSIDE)
    return Answer(
        found=_by_layer(trainer.weights()),
        expected=_by_layer(Toy().trained(ranks, ITERATIONS, max(micros, 1))),
        sizes=toy.sizes,
    )


def _by_layer(weights: object) -> dict[str, torch.Tensor]:
    """A list of layers by name; empty if it is not a list."""
    given = weights if isinstance(weights, list | tuple) else []
    return {f"layer {number}": weight for number, weight in enumerate(given)}


def _on_grid(tensor: torch.Tensor) -> torch.Tensor:
    return (tensor * _GRID).round_().div_(_GRID).clamp_(-_LARGEST, _LARGEST)
