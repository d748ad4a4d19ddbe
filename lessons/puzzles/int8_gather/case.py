"""A gather in int8 with an error bound: inputs, and what is right."""

from __future__ import annotations

from types import ModuleType

import torch

from zerosim.base.language import Words
from zerosim.puzzles.answer import Answer
from zerosim.puzzles.pieces import begin, end
from zerosim.schema.events import Phase

ELEMENTS, BLOCK = 256, 32
told = Words.beside(__file__, "puzzle")


def run(program: ModuleType, rank: int, ranks: int) -> Answer:
    """Call the program on one rank."""
    begin(0, Phase.FORWARD)
    found = program.int8_gather(_shard(rank), BLOCK, ranks)
    end(0)
    right = torch.cat([_shard(one) for one in range(ranks)])
    steps = right.view(-1, BLOCK).abs().amax(1) / 127
    sizes = {"elements": right.numel(), "blocks": len(steps)}
    if not isinstance(found, torch.Tensor) or found.shape != right.shape:
        return Answer(found={"the values": found}, expected={"the values": right}, sizes=sizes)
    far = (found.double() - right.double()).abs().view(-1, BLOCK).amax(1)
    allowed = steps.double() * 0.5001
    wrong = (~(far <= allowed)).nonzero()
    problem = ""
    if len(wrong):
        one = int(wrong[0])
        given, most = (f"{float(each[one]):.3g}" for each in (far, allowed))
        problem = told("problems.off", block=one, far=given, allowed=most)
    return Answer(found={}, expected={}, sizes=sizes, problem=problem)


def _shard(rank: int) -> torch.Tensor:
    """Blocks of very different size, one of them all zeros."""
    drawn = torch.Generator().manual_seed(60 + rank)
    values = torch.randn(ELEMENTS // BLOCK, BLOCK, generator=drawn)
    values *= torch.logspace(-3, 3, ELEMENTS // BLOCK)[:, None]
    values[rank] = 0
    return values.view(-1)
