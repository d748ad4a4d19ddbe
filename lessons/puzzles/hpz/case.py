"""hpZ: backward gathers inside a node: inputs, and what is right."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from zerosim.puzzles.answer import Answer
from zerosim.puzzles.toy import Toy, trained_with

RANKS_PER_NODE = 2


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Train with the program's class on one rank."""
    toy = Toy()
    answer = trained_with(program.Hpz(toy, rank, ranks, RANKS_PER_NODE), toy, rank, ranks)
    return replace(answer, sizes={**answer.sizes, "node": RANKS_PER_NODE})
