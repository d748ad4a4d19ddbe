"""Each of PyTorch's collectives once, with the same payload, one after another.

The kernel's counters are read around each call, so it is known what the backend makes each rank
send. Started by torchrun, with the options of `zerosim run`; it reads the folder.
"""

# ruff: noqa: INP001 - a program beside the package, which never imports torch

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
import torch.distributed as dist

import zerosim
from zerosim.schema.events import Phase
from zerosim.trace import labels

ELEMENTS = 1 << 18
"""Of each payload, fp32: a megabyte, which 2, 4 and 8 ranks divide."""


def calls(num_ranks: int, rank: int) -> tuple[Callable[[], object], ...]:
    """What is called in which order; rank 0 is the root."""
    whole = torch.full((ELEMENTS,), float(rank))
    other = torch.empty(ELEMENTS)
    part = torch.empty(ELEMENTS // num_ranks)
    parts = list(whole.chunk(num_ranks))
    mine = whole.chunk(num_ranks)[rank]
    return (
        lambda: dist.broadcast(whole, 0),
        lambda: dist.all_reduce(whole),
        lambda: dist.all_gather_into_tensor(other, mine),
        lambda: dist.all_to_all_single(other, whole),
        lambda: dist.scatter(part, parts if rank == 0 else None, 0),
        lambda: dist.gather(part, parts if rank == 0 else None, 0),
    )


def main() -> None:
    """Call each of them once, recorded."""
    given = argparse.ArgumentParser()
    given.add_argument("--out")
    folder = given.parse_known_args()[0].out
    dist.init_process_group("gloo")
    with zerosim.trace(folder):
        labels.enter(0, Phase.FORWARD)
        for call in calls(dist.get_world_size(), dist.get_rank()):
            with labels.exclusive():
                call()
        labels.enter(0, Phase.OUTSIDE)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
