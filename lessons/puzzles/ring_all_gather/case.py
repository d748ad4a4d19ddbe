"""All-gather around a ring: inputs, and what is right."""

from __future__ import annotations

from types import ModuleType

from zerosim.puzzles.answer import Answer
from zerosim.puzzles.pieces import begin, numbered, owned
from zerosim.schema.events import Phase


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Call the program on one rank."""
    own = owned(rank, ranks)
    begin(0, Phase.UPDATE)
    found = program.all_gather(own.clone(), rank, ranks)
    right = [owned(other, ranks) for other in range(ranks)]
    return Answer(
        found=numbered(found),
        expected=numbered(right),
        sizes={"elements": ranks * own.numel()},
        contents={f"piece {number} of rank {number}": one for number, one in enumerate(right)},
    )
