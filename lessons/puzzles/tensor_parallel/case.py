"""A tensor-parallel pair of layers: inputs, and what is right."""

from __future__ import annotations

from types import ModuleType

import torch

from zerosim.puzzles.answer import Answer
from zerosim.puzzles.pieces import begin, end
from zerosim.schema.events import Phase

ROWS, WIDTH, INNER = 6, 16, 32


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Call the program on one rank."""
    x, up, down, gradient = _whole()
    own_up = up.tensor_split(ranks, 1)[rank].clone()
    own_down = down.tensor_split(ranks, 0)[rank].clone()
    begin(0, Phase.FORWARD)
    output = program.forward(x.clone(), own_up, own_down)
    begin(0, Phase.BACKWARD)
    found = program.backward(x.clone(), own_up, own_down, gradient.clone())
    end(0)
    given = found if isinstance(found, tuple) and len(found) == 3 else (None, None, None)
    for one in (x, up, down):
        one.requires_grad_()
    right = torch.relu(x @ up) @ down
    right.backward(gradient)
    names = ("the gradient of x", "the gradient of Up", "the gradient of Down")
    expected = (x.grad, up.grad.tensor_split(ranks, 1)[rank], down.grad.tensor_split(ranks)[rank])
    return Answer(
        found={"the output": output, **dict(zip(names, given, strict=True))},
        expected={"the output": right.detach(), **dict(zip(names, expected, strict=True))},
        sizes={"elements": ROWS * WIDTH},
    )


def _whole() -> list[torch.Tensor]:
    """Whole numbers, so that sums are exact in any order."""
    drawn = torch.Generator().manual_seed(9)
    shapes = ((ROWS, WIDTH), (WIDTH, INNER), (INNER, WIDTH), (ROWS, WIDTH))
    return [torch.randint(-4, 5, shape, generator=drawn).float() for shape in shapes]
