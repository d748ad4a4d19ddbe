"""How much slower a step is for being traced: by how long it lasts and how many events it has.

Each turn does the same steps untraced and in each way of tracing, the order turned around every
time; a ratio is the median over the turns. By the clock it is what a program feels, on a quiet
machine; in CPU time of a rank's whole process, its backend's threads too, it is what tracing takes,
whatever else the machine does.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist

from tests.bench.pairs import Step
from tests.bench.programs import ABSENT, PROGRAMS, cpu_us, events_a_step, lasting
from tests.ranks import run_ranks
from zerosim.trace import trace

NUM_TURNS = 5
LASTING_MS = (6, 30, 100, 1000)
TURN_S = 0.25
"""A turn has as many steps as fit into this; one at least."""
WAYS: dict[str, dict[str, bool]] = {"without memory": {"memory": False}, "with memory": {}}
BUSY = 0.5
"""Others that want a core, from which on the machine is not quiet."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """Of one program, as rank 0 measured it: by the step's length, then by the way of tracing.

    Attributes:
        events: in a step.
        clock, cpu: traced over untraced; nothing of a step that is longer by itself.
    """

    name: str
    events: float
    clock: dict[int, dict[str, float]]
    cpu: dict[int, dict[str, float]]


def measure() -> list[Ratios]:
    """Each program on the ranks of this one."""
    return [_ratios(name, size) for name, (_, sizes) in PROGRAMS.items() for size in sizes]


def table() -> list[str]:
    """The report's part."""
    load_before = os.getloadavg()[0]
    found = run_ranks(measure, 2, deadline_s=1800)[0]
    columns = " | ".join(f"{milliseconds} ms a step" for milliseconds in LASTING_MS)
    lines = [
        "## What an event costs",
        "",
        (
            f"`python -m tests.bench --only events`, {datetime.now(UTC):%Y-%m-%d}: 2 ranks, one "
            f"thread each, torch {torch.__version__}. The table gives the time of a step, "
            f"traced {' and '.join(WAYS)}, divided by that of an untraced step: medians over "
            f"{NUM_TURNS} turns, rank 0. "
            f"{quiet(load_before)}"
        ),
        "",
        f"| program | events a step | by | {columns} |",
        f"| --- | ---: | --- |{' ---: |' * len(LASTING_MS)}",
    ]
    for one in found:
        for by, ratios in (("the clock", one.clock), ("CPU time", one.cpu)):
            cells = " | ".join(_cell(ratios.get(each, {})) for each in LASTING_MS)
            lines.append(f"| {one.name} | {one.events:.0f} | {by} | {cells} |")
    return [
        *lines,
        "",
        (
            "An event is a computation, a collective, a message of a ring or a wait. Additional "
            "PyTorch work before a step extends the step to the time at the head of its column. A "
            "cell is empty if the step alone takes longer."
        ),
        *([] if any(name.startswith("DeepSpeed") for name in PROGRAMS) else [ABSENT]),
    ]


def quiet(before: float) -> str:
    """Whether the machine was, in words; `before`: the runnable programs at the start."""
    if before > BUSY:
        return f"The machine was not quiet: {before:.1f} programs were runnable at the start."
    return "The machine was quiet at the start."


def _cell(ratios: dict[str, float]) -> str:
    return " and ".join(f"{ratios[way]:.3f}" for way in WAYS) if ratios else ""


def _ratios(name: str, size: int) -> Ratios:
    make, _ = PROGRAMS[name]
    with make(size) as step, tempfile.TemporaryDirectory() as folder:
        events = events_a_step(step)
        own_s = min(_seconds(step, 3)[0] for _ in range(3))
        clock: dict[int, dict[str, float]] = {}
        cpu: dict[int, dict[str, float]] = {}
        for milliseconds in LASTING_MS:
            rest_s = _agreed(milliseconds / 1e3 - own_s)
            if rest_s > 0:
                turns = list(_turns(lasting(step, rest_s), milliseconds, folder))
                clock[milliseconds], cpu[milliseconds] = (
                    {way: median(turn[way][of] / turn[""][of] for turn in turns) for way in WAYS}
                    for of in (0, 1)
                )
    return Ratios(name, events, clock, cpu)


def _turns(step: Step, milliseconds: int, folder: str) -> Iterator[dict[str, tuple[float, float]]]:
    """Seconds and CPU time of the same steps in each way, untraced under ""; the first warms up."""
    steps = max(1, round(TURN_S * 1e3 / milliseconds))
    ways: dict[str, dict[str, bool] | None] = {"": None, **WAYS}
    for number in range(NUM_TURNS + 1):
        order = list(ways)[:: 1 if number % 2 else -1]
        turn = {way: _timed(step, steps, ways[way], folder) for way in order}
        if number:
            yield turn


_numbers = count()


def _timed(
    step: Step, steps: int, options: dict[str, bool] | None, folder: str
) -> tuple[float, float]:
    """Seconds of so many steps, traced with these options; untraced with none."""
    if options is None:
        return _seconds(step, steps)
    with trace(Path(folder, f"{dist.get_rank()}-{next(_numbers)}"), **options):
        step()  # what is met for the first time
        return _seconds(step, steps)


def _seconds(step: Step, steps: int) -> tuple[float, float]:
    """Seconds by the clock, and of CPU time, of so many steps."""
    dist.barrier()
    begin = time.perf_counter()
    spent_us = cpu_us(step, steps)
    return time.perf_counter() - begin, spent_us * steps / 1e6


def _agreed(seconds: float) -> float:
    """The least of all ranks."""
    found = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(found, dist.ReduceOp.MIN)
    return float(found)
