"""Pipeline parallelism with `torch.distributed.pipelining`.

Sources: Huang et al., "GPipe" (arXiv 1811.06965); Narayanan et al., "PipeDream" (arXiv 1806.03377)
for one forward, one backward (1F1B).
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle

from zerosim.base.config import RunConfig
from zerosim.systems.step import Step, adam, model_of
from zerosim.train.models import GPT, Batches, next_byte_loss


def gpipe(run: RunConfig, batches: Batches) -> Step:
    """GPipe: all forwards, then all backwards."""
    return _pipeline(run, batches, ScheduleGPipe)


def one_f_one_b(run: RunConfig, batches: Batches) -> Step:
    """1F1B: each backward as soon as it can start, so that fewer activations are live."""
    return _pipeline(run, batches, Schedule1F1B)


def _pipeline(run: RunConfig, batches: Batches, schedule_of: type[PipelineScheduleSingle]) -> Step:
    """A stage on each rank; the batch of all ranks, split into `num_microbatches`."""
    model = model_of(run)
    assert isinstance(model, GPT), "the catalogue asks for a GPT"
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    module = _cut(model, rank, num_ranks)
    stage = PipelineStage(module, rank, num_ranks, torch.device("cpu"))
    schedule = schedule_of(stage, n_microbatches=num_microbatches(run), loss_fn=next_byte_loss)
    optimizer = adam(module.parameters())

    def step(iteration: int) -> float | None:
        tokens = batches.union(iteration)
        losses: list[Tensor] = []
        given = (tokens[:, :-1],) if rank == 0 else ()
        target = tokens[:, 1:] if rank == num_ranks - 1 else None
        schedule.step(*given, target=target, losses=losses if target is not None else None)
        optimizer.step()
        optimizer.zero_grad()
        return None if target is None else float(torch.stack(losses).detach().mean())

    return step


def num_microbatches(run: RunConfig) -> int:
    """The number of micro-batches: two per stage if a rank's batch can be halved, else one.

    With as many micro-batches as stages, the first stage keeps all of them in either schedule.
    """
    return run.ranks * (1 if run.batch % 2 else 2)


def _cut(model: GPT, rank: int, num_ranks: int) -> nn.Sequential:
    """This rank's part of embedding, blocks and head; equal numbers of blocks as far as
    possible.
    """
    num_blocks = len(model.blocks)
    first, last = (num_blocks * part // num_ranks for part in (rank, rank + 1))
    parts: list[nn.Module] = list(model.blocks)[first:last]
    if rank == 0:
        parts = [model.embedding, *parts]
    if rank == num_ranks - 1:
        parts = [*parts, model.head]
    return nn.Sequential(*parts)
