"""The same traced steps in several ways, in turn; and what some options of a trace cost."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from unittest import mock

import torch.distributed as dist

from tests.bench.pairs import Step
from tests.bench.programs import PROGRAMS, cpu_us, events_a_step
from zerosim.schema.attach import ATTACH_VARIABLE, new_token
from zerosim.trace import trace

NUM_PAIRS = 30
TURN_STEPS = 20
SIZES = {"DDP": 20, "FSDP2": 6, "engine, stage 3": 3}
"""Layers of each program."""
Way = Callable[[str], AbstractContextManager[object]]
"""From the folder of a trace to what steps are done in."""


def in_turn(
    step: Step, ways: Mapping[str, Way], home: str, num_pairs: int = NUM_PAIRS
) -> dict[str, list[float]]:
    """CPU time of a step in each way, in microseconds, turn by turn; a first turn warms up.

    Every other turn goes through the ways backwards, so that a machine's drift falls on all.
    """
    took: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(num_pairs + 1):
        for name in list(ways) if number % 2 else reversed(ways):
            with ways[name](f"{home}/{dist.get_rank()}-{number}-{name}"):
                step()
                us = cpu_us(step, TURN_STEPS)
            if number:
                took[name].append(us)
    return took


def ratios(took: Mapping[str, Sequence[float]], over: str, under: str) -> list[float]:
    """One way over another, pair by pair."""
    return [one / other for one, other in zip(took[over], took[under], strict=True)]


@contextmanager
def _debuggable(folder: str) -> Iterator[None]:
    with mock.patch.dict(os.environ, {ATTACH_VARIABLE: new_token()}), trace(folder):
        yield


OPTIONS: dict[str, Way] = {
    "--check-replicas 1": lambda folder: trace(folder, check_replicas=1),
    "--debuggable": _debuggable,
}
"""As they are typed."""
_PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class OptionCost:
    """What the options cost one program, as rank 0 measured it.

    Attributes:
        step_us: CPU time of a traced step without any.
        ratios: by option, CPU time with it over that without, pair by pair.
    """

    name: str
    events: float
    step_us: float
    ratios: dict[str, list[float]]


def measure_options(num_pairs: int = NUM_PAIRS) -> list[OptionCost]:
    """Each program on the ranks of this one."""
    costs = []
    for name, size in SIZES.items():
        with PROGRAMS[name][0](size) as step, tempfile.TemporaryDirectory() as home:
            events = events_a_step(step)
            took = in_turn(step, {_PLAIN: trace, **OPTIONS}, home, num_pairs)
        by_option = {option: ratios(took, option, _PLAIN) for option in OPTIONS}
        costs.append(OptionCost(name, events, statistics.median(took[_PLAIN]), by_option))
    return costs


def options_table(costs: Sequence[OptionCost]) -> list[str]:
    """Markdown: a row for each program and option."""
    lines = [
        "| program | events | traced step | option | ratio | quartiles |",
        "| --- | ---: | ---: | --- | ---: | --- |",
    ]
    for one in costs:
        for option, found in one.ratios.items():
            first, middle, third = statistics.quantiles(found, n=4)
            lines.append(
                f"| {one.name} | {one.events:.0f} | {one.step_us / 1000:.1f} ms | `{option}` "
                f"| **{middle:.4f}** | {first:.4f} to {third:.4f} |"
            )
    return lines
