"""Small training programs that PyTorch's profiler and zerosim record at once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

import zerosim

STEPS = 3
PROFILED = (1, 2)


def _model(*, norm: bool = False):
    torch.manual_seed(0)
    layers = [nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)]
    return nn.Sequential(*layers, *([nn.BatchNorm1d(8)] if norm else []))


def ddp():
    """Two buckets, buffers, an evaluation, two micro-steps of which one reduces."""
    model = DistributedDataParallel(_model(norm=True), bucket_cap_mb=0.0005)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(given):
        with model.no_sync():
            model(given).square().mean().backward()
        model(given).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            model(given)

    return step


def fsdp2():
    """A unit for each layer, gathered again in backward; the root has no parameters."""
    model = _model()
    fully_shard(model[0])
    fully_shard(model[2])
    fully_shard(model)
    return _step(model, torch.optim.AdamW(model.parameters()))


def fsdp2_rooted():
    """The root has parameters of its own, which are kept after forward; rows are padded."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 5), nn.Tanh(), nn.Linear(5, 3))
    fully_shard(model[0])
    fully_shard(model)
    return _step(model, torch.optim.AdamW(model.parameters()))


def fsdp1():
    """A unit for each layer and the root: gathered in forward and in backward."""
    from torch.distributed.fsdp import FullyShardedDataParallel as Sharded  # warns of its age

    policy = ModuleWrapPolicy({nn.Linear})
    model = Sharded(_model(), auto_wrap_policy=policy, device_id=torch.device("cpu"))
    return _step(model, torch.optim.AdamW(model.parameters()))


def zero1():
    """DDP with an optimizer that divides its states and broadcasts what it updated."""
    from torch.distributed.optim import ZeroRedundancyOptimizer  # warns

    model = DistributedDataParallel(_model())
    adam = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    return _step(model, adam)


def tensor_parallel():
    """A column and a row: one all-reduce of activations in forward."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = parallelize_module(_model(), mesh, plan)
    return _step(model, torch.optim.AdamW(model.parameters()))


def by_hand():
    """A program that calls each kind of collective by itself, in backward and after the update."""
    model, rank, size = _model(), dist.get_rank(), dist.get_world_size()
    train = _step(model, torch.optim.SGD(model.parameters()), between=lambda: _reduce(model))

    def step(given):
        train(given)
        ones = torch.ones(6)
        parts = [torch.empty(6) for _ in range(size)]
        dist.broadcast(ones, 1)
        dist.reduce(ones, 0)
        dist.all_gather(parts, ones)
        dist.gather(ones, parts if rank == 0 else None, 0)
        dist.all_to_all_single(torch.empty(6), ones)
        dist.reduce_scatter_tensor(torch.empty(3), ones)
        dist.barrier()
        other = torch.empty(6)
        (dist.send(ones, 1), dist.recv(other, 1)) if rank == 0 else (
            dist.recv(other, 0),
            dist.send(ones, 0),
        )

    return step


def _reduce(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def _step(model, optimizer, between=lambda: None):
    def step(given):
        model(given).square().mean().backward()
        between()
        optimizer.step()
        optimizer.zero_grad()

    return step


PROGRAMS = (ddp, fsdp2, fsdp2_rooted, fsdp1, zero1, tensor_parallel, by_hand)


def record_all(folder: str, *, shapes: bool = True) -> None:
    """Record each program in `folder/NAME-traced` and `folder/NAME-profiled`."""
    rank = dist.get_rank()
    given = torch.randn(4, 8, generator=torch.Generator().manual_seed(rank))
    for program in PROGRAMS:
        name = program.__name__
        out = Path(folder) / f"{name}-profiled"
        out.mkdir(exist_ok=True)
        plan = schedule(wait=0, warmup=PROFILED[0], active=len(PROFILED), repeat=1)
        with zerosim.trace(Path(folder) / f"{name}-traced", memory=False):
            step = program()
            options = {"activities": [ProfilerActivity.CPU], "record_shapes": shapes}
            file = str(out / f"{rank}.json.gz")
            done = partial(torch.profiler.profile.export_chrome_trace, path=file)
            with profile(schedule=plan, on_trace_ready=done, **options) as profiler:
                for _ in range(STEPS):
                    step(given)
                    profiler.step()
