"""How a model comes to be in its parts: made whole on every rank first, or part by part.

    whole          stage 3 of zerosim's engine: each rank makes all layers, then keeps its part
    late           the same; layers are made on the meta device, one after another, and divided
    ddp            DistributedDataParallel: all of it stays, and rank 0 broadcasts it
    fsdp2-whole    `fully_shard` on layers that each rank has made
    fsdp2-late     `fully_shard` on the meta device; then a rank makes its part of each layer

One step of training follows. Started by torchrun with the options of `zerosim run`; it reads the
folder of the trace.
"""

# ruff: noqa: INP001 - a program beside the package, which never imports torch

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import zerosim
from zerosim.base.config import DType, EngineConfig
from zerosim.schema.events import Phase
from zerosim.trace import labels

LAYERS, WIDTH, BATCH, SEED = 8, 256, 4, 0


FIRST_PART = "sum of the own part of the first layer"


class Stack(nn.Module):
    """Layers one after another; its forward is its loss."""

    def __init__(self) -> None:
        """Make all layers where PyTorch makes tensors now."""
        super().__init__()
        self.linear = [nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]
        self.layers = nn.ModuleList(self.linear)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """How far the last layer is from nothing."""
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x.square().mean()


Step = Callable[[torch.Tensor], float]
"""Does one step with this rank's data; its loss."""


def with_engine(where: str) -> Step:
    """Zerosim's engine, and how it does a step."""
    with torch.device(where):
        model = Stack()
    engine = zerosim.initialize(model, EngineConfig(stage=3, dtype=DType.FP32))

    def step(x: torch.Tensor) -> float:
        loss: torch.Tensor = engine(x)
        engine.backward(loss)
        engine.step()
        engine.close()
        return float(loss.detach())

    return step


def with_pytorch(module: nn.Module) -> Step:
    """A module of PyTorch's, and how it does a step."""

    def step(x: torch.Tensor) -> float:
        optimizer = torch.optim.AdamW(module.parameters())
        loss: torch.Tensor = module(x)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def sharded(where: str) -> Stack:
    """FSDP2, as its tutorial does it."""
    with torch.device(where):
        model = Stack()
    for layer in model.linear:
        fully_shard(layer)
    fully_shard(model)
    if where == "meta":
        model.to_empty(device="cpu")
        for layer in model.linear:
            layer.reset_parameters()
    first: Any = model.linear[0].weight
    labels.metric(FIRST_PART, first.to_local().sum().item())
    return model


WAYS: dict[str, Callable[[], Step]] = {
    "whole": lambda: with_engine("cpu"),
    "late": lambda: with_engine("meta"),
    "ddp": lambda: with_pytorch(DistributedDataParallel(Stack())),
    "fsdp2-whole": lambda: with_pytorch(sharded("cpu")),
    "fsdp2-late": lambda: with_pytorch(sharded("meta")),
}


def main() -> None:
    """Set up and train for a step, recorded."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--way", choices=WAYS, required=True)
    given, _ = parser.parse_known_args()
    # that DTensors draw without offsets on a CPU: a lesson speaks of it
    warnings.filterwarnings("ignore", message="DTensor random operators may not have")
    dist.init_process_group("gloo")
    with zerosim.trace(given.out, allocations=True):
        labels.enter(-1, Phase.SETUP)
        torch.manual_seed(SEED)
        step = WAYS[given.way]()
        torch.manual_seed(SEED + 1 + dist.get_rank())
        labels.enter(-1, Phase.OUTSIDE)
        labels.metric("loss", step(torch.randn(BATCH, WIDTH)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
