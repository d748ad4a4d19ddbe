"""Find the bug: sometimes right: inputs, and what is right."""

from __future__ import annotations

from types import ModuleType

import torch

from zerosim.puzzles.answer import Answer
from zerosim.puzzles.pieces import begin, end, vector_of
from zerosim.schema.events import Phase

ROWS, WIDTH = 4, 16


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Call the program on one rank."""
    own, before = (
        vector_of(one % ranks, ROWS * WIDTH).view(ROWS, WIDTH) for one in (rank, rank - 1)
    )
    begin(0, Phase.FORWARD)
    found = program.with_edge(own.clone(), rank, ranks)
    end(0)
    right = torch.cat([before[-1:], own])
    return Answer(found={"rows": found}, expected={"rows": right}, sizes={"row": WIDTH})
