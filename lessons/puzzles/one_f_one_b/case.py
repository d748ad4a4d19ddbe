"""A pipeline schedule: inputs, and what is right."""

from __future__ import annotations

from types import ModuleType

from zerosim.base.language import Words
from zerosim.puzzles.answer import Answer
from zerosim.puzzles.pieces import begin, end
from zerosim.puzzles.stage import Stage, summed
from zerosim.schema.events import Phase

MICROS = 8
told = Words.beside(__file__, "puzzle")


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Train a step with the program's order on one rank."""
    stage = Stage(rank, ranks)
    begin(0, Phase.FORWARD)
    program.one_f_one_b(stage, rank, ranks, MICROS)
    end(0)
    left = ", ".join(map(str, stage.kept))
    return Answer(
        found=stage.gradients(),
        expected=summed(ranks, MICROS)[rank],
        sizes={"micros": MICROS, **stage.sizes},
        problem=told("problems.left", left=left) if left else "",
    )
