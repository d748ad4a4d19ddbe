"""A loss-scaled update that all ranks skip: inputs, and what is right."""

from __future__ import annotations

from types import ModuleType

import torch

from zerosim.puzzles.answer import Answer
from zerosim.puzzles.pieces import begin, end
from zerosim.schema.events import Phase

ELEMENTS = 512
OVERFLOWS = {1: (2, float("inf")), 2: (3, float("nan"))}
"""In which iteration which rank meets what."""
SCALE = 1024.0


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Call the program in four iterations on one rank."""
    parameter, scale = torch.zeros(ELEMENTS), SCALE
    right, right_scale = torch.zeros(ELEMENTS), SCALE
    for iteration in range(4):
        total = _total(iteration)
        shard = (total * scale).view(ranks, -1)[rank].clone()
        who, value = OVERFLOWS.get(iteration, (-1, 0.0))
        if rank == who:
            shard[3] = value
        begin(iteration, Phase.UPDATE)
        scale = program.update(parameter, shard, scale, rank, ranks)
        end(iteration)
        if who >= 0:
            right_scale /= 2
        else:
            right -= total / ranks / 8
    found = {"the parameter": parameter, "the scale": torch.tensor(float(scale))}
    expected = {"the parameter": right, "the scale": torch.tensor(right_scale)}
    return Answer(found=found, expected=expected, sizes={"elements": ELEMENTS})


def _total(iteration: int) -> torch.Tensor:
    drawn = torch.Generator().manual_seed(40 + iteration)
    return torch.randint(-64, 65, (ELEMENTS,), generator=drawn).float()
