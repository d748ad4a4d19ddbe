"""Data parallel with a hook: inputs, and what is right."""

from __future__ import annotations

from types import ModuleType

import torch

from zerosim.puzzles.answer import Answer
from zerosim.schema.events import Phase
from zerosim.trace import labels

WIDTH, DEPTH, ITERATIONS = 16, 3, 2


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Train a model that the program was attached to, and one on all batches beside it."""
    model = _model()
    program.attach(model, ranks)
    found = _train(model, [rank])
    right = _train(_model(), list(range(ranks)))
    sizes = {"elements": sum(one.numel() for one in model.parameters())}
    return Answer(found=found, expected=right, sizes=sizes)


def _model() -> torch.nn.Module:
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(DEPTH)]
    drawn = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for layer in layers:
            layer.weight.copy_(torch.randint(-1, 2, (WIDTH, WIDTH), generator=drawn))
    return torch.nn.Sequential(*layers).double()


def _train(model: torch.nn.Module, ranks: list[int]) -> dict[str, torch.Tensor]:
    """Whole numbers in float64: sums are exact in any order."""
    optimizer = torch.optim.SGD(model.parameters(), lr=2**-6)
    for iteration in range(ITERATIONS):
        optimizer.zero_grad()
        is_measured = len(ranks) == 1
        for rank in ranks:
            drawn = torch.Generator().manual_seed(100 * rank + iteration)
            x = torch.randint(-1, 2, (2, WIDTH), generator=drawn).double()
            if is_measured:
                labels.enter(iteration, Phase.FORWARD)
            loss = model(x).sum() / len(ranks)
            if is_measured:
                labels.enter(iteration, Phase.BACKWARD)
            loss.backward()
        if is_measured:
            labels.enter(iteration, Phase.UPDATE)
        optimizer.step()
    if is_measured:
        labels.enter(iteration, Phase.OUTSIDE)
    return {name: one.detach().clone() for name, one in model.named_parameters()}
