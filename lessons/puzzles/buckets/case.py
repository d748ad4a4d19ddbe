"""Buckets: inputs, and what is right."""

from __future__ import annotations

from types import ModuleType

import torch

from zerosim.puzzles.answer import Answer
from zerosim.puzzles.pieces import begin, end, numbered, vector_of

SHAPES = ((40, 40), (40,), (40, 20), (20,), (20, 20), (20,), (900,), (30, 30))
BUCKET = 2000


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Call the program on one rank."""
    given = _gradients(rank)
    begin(0)
    program.average(given, BUCKET, ranks)
    end(0)
    all_ranks = [_gradients(one) for one in range(ranks)]
    right = [torch.stack(some).sum(0) / ranks for some in zip(*all_ranks, strict=True)]
    sizes = [gradient.numel() for gradient in given]
    filled, room = 1, BUCKET
    for size in sizes:
        if size > room:
            filled, room = filled + 1, BUCKET
        room -= size
    return Answer(
        found=numbered(given, "gradient"),
        expected=numbered(right, "gradient"),
        sizes={"elements": sum(sizes), "bucket": BUCKET, "filled": filled},
    )


def _gradients(rank: int) -> list[torch.Tensor]:
    return [vector_of(10 * rank + n, torch.Size(s).numel()).view(s) for n, s in enumerate(SHAPES)]
