"""Short training steps of several systems, with about 10, 50 and 300 events each.

Layers are 32 wide, so that what is traced weighs most; `lasting` makes a step as long as is asked.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import zerosim
from tests.bench.pairs import Step
from zerosim.record import load
from zerosim.trace import trace

WIDTH = 32
_COUNTED = 3
ABSENT = "DeepSpeed is not installed here, so it was not measured."


def layers(number: int) -> nn.Sequential:
    """A model of so many layers."""
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(number)))


def training(model: nn.Module) -> Step:
    """A step of a model of layers."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step() -> None:
        model(torch.randn(4, WIDTH)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def lasting(step: Step, seconds: float) -> Step:
    """The step after work of PyTorch's that takes the thread so long."""
    matrix = torch.randn(64, 64)

    def longer() -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            torch.mm(matrix, matrix)
        step()

    return longer


def cpu_us(step: Step, steps: int) -> float:
    """CPU time of this process a step, its backend's threads too, in microseconds.

    All ranks begin together. Unlike the time of the clock it depends little on what else the
    machine does.
    """
    dist.barrier()
    begin = time.process_time()
    for _ in range(steps):
        step()
    return (time.process_time() - begin) / steps * 1e6


def events_a_step(step: Step) -> float:
    """How many events a trace has of a step, after the first ones."""
    for _ in range(3):
        step()
    with tempfile.TemporaryDirectory() as folder:
        with trace(folder):
            for _ in range(_COUNTED):
                step()
        (rank,) = load(folder).ranks
    return len(rank.events) / _COUNTED


@contextmanager
def _ddp(number: int) -> Iterator[Step]:
    yield training(DistributedDataParallel(layers(number), bucket_cap_mb=0.01))


@contextmanager
def _fsdp2(number: int) -> Iterator[Step]:
    model = layers(number)
    for module in (*model, model):
        fully_shard(module)
    yield training(model)


@contextmanager
def _engine(number: int) -> Iterator[Step]:
    engine = zerosim.initialize(layers(number), zerosim.EngineConfig(stage=3))

    def step() -> None:
        engine.backward(engine(torch.randn(4, WIDTH)).sum())
        engine.step()

    yield step
    engine.close()


@contextmanager
def _deepspeed(number: int) -> Iterator[Step]:
    import deepspeed
    import deepspeed.ops

    # would be compiled at the first collective, for a minute and a half
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    model = layers(number)
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": 4,
            "zero_optimization": {"stage": 2, "reduce_bucket_size": WIDTH * WIDTH},
            "optimizer": {"type": "AdamW", "params": {"torch_adam": True}},
        },
    )

    def step() -> None:
        engine.backward(engine(torch.randn(4, WIDTH)).sum())
        engine.step()

    yield step


PROGRAMS: dict[str, tuple[Callable[[int], AbstractContextManager[Step]], tuple[int, ...]]] = {
    "DDP": (_ddp, (4, 20, 120)),
    "FSDP2": (_fsdp2, (1, 6, 37)),
    "engine, stage 3": (_engine, (1, 3, 20)),
}
"""How each system's step is made, and of how many layers for each number of events."""
if find_spec("deepspeed") is not None:
    PROGRAMS["DeepSpeed, stage 2"] = (_deepspeed, (4, 20, 120))
