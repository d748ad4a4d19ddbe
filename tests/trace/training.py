"""Training runs of two ranks, each with and without a trace."""

from __future__ import annotations

import inspect
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn

import zerosim
from zerosim import EngineConfig
from zerosim.base.config import STAGES

STEPS = 2
DTYPES = ("fp32", "bf16")
CALL = "loss = engine(batch(iteration, micro_step))"


class Net(nn.Module):
    """Three units and a parameter of the root; its forward is its loss."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(nn.Linear(9, 9) for _ in range(2))
        self.head = nn.Linear(9, 5)
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x):
        for block in self.blocks:
            x = torch.tanh(block(x))
        return (self.head(x) * self.scale.sum()).square().mean().float()


def batch(iteration, micro_step=0):
    seed = 100 * iteration + 10 * micro_step + dist.get_rank()
    return torch.randn(4, 9, generator=torch.Generator().manual_seed(seed))


def train_engine(stage, dtype):
    config = EngineConfig(
        stage=stage, dtype=dtype, accumulate=2, clip=0.5, bucket_elements=60, chunk_bytes=64
    )
    engine = zerosim.initialize(Net(), config)
    for iteration in range(STEPS):
        for micro_step in range(2):
            loss = engine(batch(iteration, micro_step))
            engine.backward(loss)
            if engine.is_boundary:
                engine.average_loss(loss.item())
            engine.step()
    weights = engine.full_parameters()
    engine.close()
    return weights


def runs():
    """By name: what trains and returns its weights."""
    found = {}
    for stage in STAGES:
        for dtype in DTYPES:
            found[f"stage {stage}, {dtype}"] = lambda s=stage, d=dtype: train_engine(s, d)
    return found


def train_all(folder):
    """Train everything twice; returns the names whose weights differ, and those that moved."""
    differ, moved = [], []
    start = dict(Net().named_parameters())
    for name, train in runs().items():
        weights = []
        for traced in (False, True):
            with zerosim.trace(f"{folder}/{name}", allocations=True) if traced else nullcontext():
                weights.append(train())
        plain, traced = weights
        if not all(torch.equal(plain[key], traced[key]) for key in plain) or not plain:
            differ.append(name)
        if all(not torch.equal(plain[key].float(), start[key]) for key in plain):
            moved.append(name)
    return differ, moved


def line_of(text):
    """The line of this file that holds a piece of `train_engine`."""
    lines, first = inspect.getsourcelines(train_engine)
    (found,) = [first + place for place, line in enumerate(lines) if text in line]
    return found
