"""Reduce-scatter around a ring: inputs, and what is right."""

from __future__ import annotations

from types import ModuleType

from zerosim.puzzles.answer import Answer
from zerosim.puzzles.pieces import begin, partial_sums, pieces_of, total


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Call the program on one rank."""
    pieces = pieces_of(rank, ranks)
    begin(0)
    found = program.reduce_scatter([piece.clone() for piece in pieces], rank, ranks)
    return Answer(
        found={"the piece": found},
        expected={"the piece": total(rank, ranks)},
        sizes={"elements": ranks * pieces[0].numel()},
        contents=partial_sums(ranks),
    )
