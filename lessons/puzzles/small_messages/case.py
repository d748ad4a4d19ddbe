"""A tree for small messages: inputs, and what is right."""

from __future__ import annotations

from types import ModuleType

from zerosim.puzzles.answer import Answer
from zerosim.puzzles.pieces import begin, some_of, vector_of

ELEMENTS = 8


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Call the program on one rank."""
    begin(0)
    found = program.tree_all_reduce(vector_of(rank, ELEMENTS), rank, ranks)
    contents = {
        f"piece 0 of ranks {', '.join(map(str, some))}": sum(vector_of(r, ELEMENTS) for r in some)
        for some in some_of(ranks)
    }
    return Answer(
        found={"the vector": found},
        expected={"the vector": sum(vector_of(r, ELEMENTS) for r in range(ranks))},
        sizes={"elements": ELEMENTS},
        contents=contents,
    )
