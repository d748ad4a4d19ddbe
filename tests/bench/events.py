"""What an event of a trace costs, and from which step time on tracing takes 1 % at most.

CPU time of a rank's whole process, its backend's threads too: unlike the time of the clock it
depends little on what else the machine does. Steps are short, so that what is traced weighs most.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from tests.bench.pairs import Step
from tests.ranks import run_ranks
from zerosim.record import load
from zerosim.trace import trace

NUM_PAIRS = 5
STEPS = 200
BUSY = 0.5
"""Others that want a core, from which on the machine is not quiet."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one program, as rank 0 measured it; microseconds of CPU time a step."""

    name: str
    events: float
    rows: float
    untraced_us: float
    without_memory_us: float
    traced_us: float

    @property
    def added_us(self) -> float:
        """What tracing adds to a step."""
        return self.traced_us - self.untraced_us


def measure() -> list[Cost]:
    """Each program on the ranks of this one."""
    return [_cost(name, make()) for name, make in PROGRAMS.items()]


def table() -> list[str]:
    """The report's part."""
    load_before = os.getloadavg()[0]
    costs = run_ranks(measure, 2, deadline_s=1800)[0]
    lines = [
        "## What an event costs",
        "",
        (
            f"`python -m tests.bench --only events`, {datetime.now(UTC):%Y-%m-%d}: 2 ranks, one "
            f"thread each, layers of 32 x 32, torch {torch.__version__}. CPU time of rank 0's "
            f"process in microseconds a step, medians of {NUM_PAIRS} turns of {STEPS} steps. "
            f"{_quiet(load_before)}"
        ),
        "",
        "| program | events | rows | untraced | without memory | traced | an event | 1 % from |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {one.name} | {one.events:.1f} | {one.rows:.1f} | {one.untraced_us:,.0f} "
        f"| {one.without_memory_us:,.0f} | {one.traced_us:,.0f} "
        f"| **{one.added_us / one.events:.0f} µs** | {one.added_us / 10_000:.2f} s a step |"
        for one in costs
    ]
    return [
        *lines,
        "",
        (
            "An event is a computation, a collective or a wait; what a step's phases cost "
            "(counters of the sockets, a look at memory) is shared out among its events. Tracing "
            "takes 1 % of a step that lasts a hundred times as long as what it adds, and less of a "
            "longer one."
        ),
    ]


def _quiet(before: float) -> str:
    if before > BUSY:
        return f"The machine was not quiet: {before:.1f} programs wanted a core when it began."
    return "The machine was quiet when it began."


def _cost(name: str, step: Step) -> Cost:
    turns: dict[str, list[float]] = {"untraced": [], "without": [], "traced": []}
    rows = events = 0
    _cpu_us(step)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(NUM_PAIRS):
            turns["untraced"].append(_cpu_us(step))
            for way, memory in (("without", False), ("traced", True)):
                home = Path(folder, str(dist.get_rank()), f"{way}-{number}")
                with trace(home, memory=memory):
                    step()  # what is met for the first time
                    turns[way].append(_cpu_us(step))
        dist.barrier()
        own = home / f"rank-{dist.get_rank()}.jsonl"
        rows = len(own.read_bytes().splitlines())
        (rank,) = [one for one in load(home).ranks if one.rank == dist.get_rank()]
        events = len(rank.events)
    middle = {way: statistics.median(values) for way, values in turns.items()}
    return Cost(
        name,
        events / (STEPS + 1),
        rows / (STEPS + 1),
        middle["untraced"],
        middle["without"],
        middle["traced"],
    )


def _cpu_us(step: Step) -> float:
    dist.barrier()
    begin = time.process_time()
    for _ in range(STEPS):
        step()
    return (time.process_time() - begin) / STEPS * 1e6


def _ddp() -> Step:
    return _training(DistributedDataParallel(nn.Linear(32, 32)))


def _fsdp2() -> Step:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32))
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh)
    return _training(model)


def _training(model: nn.Module) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step() -> None:
        model(torch.randn(4, 32)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


PROGRAMS: dict[str, Callable[[], Step]] = {"DDP": _ddp, "FSDP2": _fsdp2}
