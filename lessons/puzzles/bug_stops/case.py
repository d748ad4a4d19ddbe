"""Find the bug: a run that hangs: inputs, and what is right."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import torch

from zerosim.base.language import Words
from zerosim.puzzles.answer import Answer
from zerosim.puzzles.pieces import numbered
from zerosim.puzzles.toy import ITERATIONS, Toy, trained_with

told = Words.beside(__file__, "puzzle")


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Train with the program's class on one rank."""
    toy = Toy()
    trainer = program.LoggingTrainer(toy, rank, ranks)
    answer = trained_with(trainer, toy, rank, ranks)
    right = [_norm(iteration, ranks) for iteration in range(ITERATIONS)] if rank == 0 else []
    name = "the log of iteration"
    is_long = isinstance(trainer.log, list) and len(trainer.log) > len(right)
    return replace(
        answer,
        found={**answer.found, **numbered(trainer.log, name)},
        expected={**answer.expected, **numbered(right, name)},
        problem=told("problems.long", found=len(trainer.log), right=len(right)) if is_long else "",
    )


def _norm(iteration: int, ranks: int) -> torch.Tensor:
    """What rank 0 is to log."""
    toy = Toy()
    weights = toy.trained(ranks, iteration)
    given = [toy.gradients(weights, *toy.batch(rank, iteration)) for rank in range(ranks)]
    return torch.stack([one[0].double().square().sum() for one in given]).sum()
