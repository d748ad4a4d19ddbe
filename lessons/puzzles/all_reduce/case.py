"""All-reduce, from both halves: inputs, and what is right."""

from __future__ import annotations

from types import ModuleType

import torch

from zerosim.puzzles.answer import Answer
from zerosim.puzzles.pieces import begin, some_of, sums_of, vector_of

ELEMENTS = 254


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Call the program on one rank."""
    begin(0)
    found = program.all_reduce(vector_of(rank, ELEMENTS), rank, ranks)
    given = [vector_of(one, ELEMENTS) for one in range(ranks)]
    contents = {
        name: piece
        for chosen in some_of(ranks)
        for name, piece in sums_of(given, chosen, ranks).items()
    }
    return Answer(
        found={"the vector": found},
        expected={"the vector": torch.stack(given).sum(0)},
        sizes={"elements": ELEMENTS},
        contents=contents,
    )
