"""What the held ranks of a test run, and how it is held."""

from __future__ import annotations

import hashlib
import importlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import zerosim
from tests.ranks import run_ranks
from tests.trace.training import Net, batch
from zerosim import EngineConfig
from zerosim.debug import Controller, Door
from zerosim.schema.faults import read_faults
from zerosim.schema.stands import DEBUG_VARIABLE

STEPS = 2


def fingerprint(weights: list[torch.Tensor]) -> str:
    """All bits of some tensors."""
    found = hashlib.sha256()
    for one in weights:
        local = getattr(one, "_local_tensor", one).detach()
        found.update(local.contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def engine(folder: str, options: dict[str, Any], steps: int = STEPS) -> str:
    """Train with the engine; returns the weights' fingerprint."""
    with zerosim.trace(folder):
        trained = zerosim.initialize(Net(), EngineConfig(dtype="fp32", **options))
        for iteration in range(steps):
            trained.backward(trained(batch(iteration)))
            trained.step()
        weights = trained.full_parameters()
        trained.close()
    return fingerprint([weights[name] for name in sorted(weights)])


def ddp(folder: str) -> str:
    """Train with DDP."""
    return _torch(folder, lambda model: nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1))


def fsdp2(folder: str, gathers: str = "") -> str:
    """Train with FSDP2.

    Args:
        gathers: "ahead" if each block gathers the next one, too, before it computes.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def wrap(model: nn.Module) -> nn.Module:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        for block, following in pairwise(model.blocks) if gathers == "ahead" else ():
            block.set_modules_to_forward_prefetch([following])
        return model

    return _torch(folder, wrap)


def _torch(folder: str, wrap: Callable[[nn.Module], nn.Module]) -> str:
    with zerosim.trace(folder):
        model = wrap(Net())
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for iteration in range(STEPS):
            model(batch(iteration)).backward()
            optimizer.step()
            optimizer.zero_grad()
        return fingerprint(list(model.parameters()))


def engine_until(folder: str, options: dict[str, Any], steps: int = 0) -> tuple[int, str]:
    """Train with the engine as `ddp_until` does."""
    with zerosim.trace(folder):
        trained = zerosim.initialize(Net(), EngineConfig(dtype="fp32", **options))
        iteration = 0
        while _goes_on(folder, iteration, steps):
            trained.backward(trained(batch(iteration)))
            trained.step()
            iteration += 1
        weights = trained.full_parameters()
        trained.close()
    return iteration, fingerprint([weights[name] for name in sorted(weights)])


def ddp_until(folder: str, steps: int = 0) -> tuple[int, str]:
    """Train with DDP so many steps, or until there is a file `enough` in the folder.

    Returns:
        Steps, and the weights' fingerprint.
    """
    is_traced = "ZEROSIM_TRACE" in os.environ
    with nullcontext() if is_traced else zerosim.trace(folder):
        model = nn.parallel.DistributedDataParallel(Net())
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        iteration = 0
        while _goes_on(folder, iteration, steps):
            model(batch(iteration)).backward()
            optimizer.step()
            optimizer.zero_grad()
            iteration += 1
        return iteration, fingerprint(list(model.parameters()))


def _goes_on(folder: str, iteration: int, steps: int) -> bool:
    """What all ranks do alike, at a pace that leaves others the processor."""
    if steps:
        return iteration < steps
    time.sleep(0.01)
    told = [(Path(folder) / "enough").exists()]
    dist.broadcast_object_list(told)
    return not told[0]


def hurried(folder: str, timeout_s: float) -> float:
    """All-reduces in a group that has a timeout; returns the sum, and that it has it again."""
    group = dist.new_group(timeout=timedelta(seconds=timeout_s))
    value = torch.ones(4)
    dist.barrier(group)
    with zerosim.trace(folder):
        for _ in range(3):
            dist.all_reduce(value, group=group)
        if dist.get_rank() == 0:
            dist.recv(torch.empty(1), 1, group=group)
        else:
            dist.send(torch.ones(1), 0, group=group)
    backend = group._get_backend(torch.device("cpu"))
    assert backend.options._timeout == timedelta(seconds=timeout_s)
    return float(value[0])


@dataclass
class Held:
    """A run whose ranks a controller holds."""

    controller: Controller
    door: Door
    results: list[Any] = field(default_factory=list)
    problem: AssertionError | None = None
    thread: threading.Thread | None = None

    def end(self) -> list[Any]:
        """Wait for the run; what each rank returned."""
        assert self.thread is not None
        self.thread.join(600)
        if self.problem is not None:
            raise self.problem
        return self.results


@contextmanager
def held(function: Callable[..., Any], num_ranks: int, *args: Any) -> Iterator[Held]:
    """Run a function on ranks that are held before their first event."""
    door = Door()
    run = Held(Controller(door), door)

    def work() -> None:
        try:
            environment = {DEBUG_VARIABLE: str(door.path)}
            run.results = run_ranks(function, num_ranks, *args, environment=environment)
        except AssertionError as error:
            run.problem = error
        run.controller.program_ended("over")

    run.thread = threading.Thread(target=work)
    run.thread.start()
    try:
        run.controller.begin()
        yield run
    finally:
        door.close()
        run.thread.join(600)


def until(holds: Callable[[], bool], longest_s: float = 600.0) -> None:
    """Wait for something."""
    deadline = time.monotonic() + longest_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def framework(folder: str, module: str, name: str, options: dict[str, Any]) -> str:
    """Train as a program of `tests.systems` does, which knows nothing of the debugger."""
    torch.manual_seed(0)
    train = getattr(importlib.import_module(f"tests.systems.{module}"), name)
    with zerosim.trace(folder):
        weights = train(**options)
    return fingerprint([weights[one] for one in sorted(weights)])


def deepspeed(folder: str, case: str) -> str:
    """Train with DeepSpeed as its own tests do, which know nothing of the debugger."""
    from tests.train.deepspeed import training

    training.prepare()
    with zerosim.trace(folder):
        trained = training.train(training.CASES[case], STEPS)
        return fingerprint(training.weights_of(trained))


def going_wrong(folder: str, faults: list[str], slow_iteration: int, slow_s: float) -> None:
    """Train with DDP and faults; in one iteration rank 0 is late by so long."""
    with zerosim.trace(folder, faults=read_faults(faults)):
        model = nn.parallel.DistributedDataParallel(Net())
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for iteration in range(5):
            loss = model(batch(iteration))
            if (dist.get_rank(), iteration) == (0, slow_iteration):
                time.sleep(slow_s)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
