"""Real runs of small units that take their time: asleep, so that ranks do not need each other's
processor and what takes long is known."""

from __future__ import annotations

import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import zerosim
from zerosim import EngineConfig

STEPS = 5
NUM_RANKS = 3
SLOW_RANK = 1
SLOW_UNIT = "blocks.1"
SLOW_S = 0.2
STEADY_S = 0.06
WIDTH = 256


class _Pause(torch.autograd.Function):
    """Sleeps in forward and in backward."""

    @staticmethod
    def forward(ctx, x, seconds):
        ctx.seconds = seconds
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(ctx.seconds)
        return gradient, None


class Block(nn.Module):
    """A layer that sleeps between its input and its weights."""

    def __init__(self, seconds):
        super().__init__()
        self.seconds = seconds
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return torch.tanh(_Pause.apply(self.linear(x), self.seconds))


class Net(nn.Module):
    """Four blocks, each a unit."""

    def __init__(self, seconds):
        super().__init__()
        self.blocks = nn.ModuleList(Block(one) for one in seconds)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def _train(folder, seconds, **config):
    torch.manual_seed(0)
    with zerosim.trace(folder, memory=False):
        engine = zerosim.initialize(Net(seconds), EngineConfig(stage=3, dtype="fp32", **config))
        for _ in range(STEPS):
            engine.backward(engine(torch.ones(1, WIDTH)).square().mean())
            engine.step()
        engine.close()


def train_only(folder):
    """The same runs, and that of the slow rank without what makes it slow."""
    train_all(folder)
    _train(Path(folder, "fast"), [0.0] * 4)


def train_all(folder):
    """One rank slow in one unit; then all alike, with overlap and without."""
    slow = [0.0] * 4
    if dist.get_rank() == SLOW_RANK:
        slow[1] = SLOW_S
    _train(Path(folder, "slow"), slow)
    steady = [STEADY_S] * 4
    _train(Path(folder, "overlap"), steady)
    _train(Path(folder, "no overlap"), steady, overlap=False)
