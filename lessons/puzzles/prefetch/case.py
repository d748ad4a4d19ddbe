"""Prefetch: inputs, and what is right."""

from __future__ import annotations

from types import ModuleType

from zerosim.puzzles.answer import Answer
from zerosim.puzzles.pieces import begin, end
from zerosim.puzzles.toy import Toy
from zerosim.schema.events import Phase


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Call the program on one rank."""
    toy = Toy()
    size = toy.elements // ranks
    shards = [
        toy.initial(layer)[rank * size : (rank + 1) * size].clone() for layer in range(toy.layers)
    ]
    x, _ = toy.batch(rank, 0)
    begin(0, Phase.FORWARD)
    found = program.prefetching_forward(toy, shards, x)
    end(0)
    right = x
    toy.iteration = 1
    for layer in range(toy.layers):
        right = toy.forward(layer, toy.initial(layer), right)
    return Answer(found={"the output": found}, expected={"the output": right}, sizes=toy.sizes)
