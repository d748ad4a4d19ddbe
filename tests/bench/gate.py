"""The cost of an open gate, and the time from closing it until all ranks have stopped.

The open gate: the same traced steps with the tracer's methods as they are, and as they would be
without the question whether the gate is closed (it is taken out of their source), in turn. What one
question takes, times how often a step asks, stands beside it: less than pairs can tell apart. And
the cost of `--debuggable`, which makes a gate that a debugger may close, and `--check-replicas`.
"""

from __future__ import annotations

import ast
import functools
import inspect
import os
import statistics
import tempfile
import textwrap
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist

from tests.bench.events import quiet
from tests.bench.programs import PROGRAMS, events_a_step
from tests.bench.turns import (
    NUM_PAIRS,
    SIZES,
    in_turn,
    measure_options,
    options_table,
    ratios,
)
from tests.ranks import run_ranks
from zerosim.debug import Controller, Door
from zerosim.schema.stands import DEBUG_VARIABLE
from zerosim.trace import trace
from zerosim.trace.calls import Calls
from zerosim.trace.gate import gate
from zerosim.trace.recorder import Recorder

NUM_STOPS = 25
ASKERS: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (Recorder, ("entered", "open_compute", "open_collective", "open_copy", "posts")),
    (Calls, ("issued",)),
)
"""The methods that ask on a step's way."""
_LOOPS = 200_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one program, as rank 0 measured it.

    Attributes:
        ratios: CPU time with the question over that without, pair by pair.
        asked: questions in a step; step_us: CPU time of one.
        question_ns: what one takes.
    """

    name: str
    events: float
    ratios: list[float]
    asked: float
    step_us: float
    question_ns: float


class _Without(ast.NodeTransformer):
    """Takes each `if gate.is_closed: ...` away."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        return None if ast.unparse(node.test) == "gate.is_closed" else node


def without_question(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method as it would be if it never asked."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    changed = ast.fix_missing_locations(_Without().visit(tree))
    assert ast.dump(changed) != ast.dump(ast.parse(textwrap.dedent(inspect.getsource(function))))
    module = compile(changed, function.__name__, "exec")
    code = next(one for one in module.co_consts if isinstance(one, types.CodeType))
    made = types.FunctionType(code, function.__globals__, argdefs=function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


@contextmanager
def asking(*, asks: bool) -> Iterator[None]:
    """The tracer that is begun inside asks, or does not; either way its methods are new."""
    with ExitStack() as patches:
        for home, names in ASKERS:
            for name in names if not asks else ():
                changed = without_question(getattr(home, name))
                patches.enter_context(mock.patch.object(home, name, changed))
        yield


@contextmanager
def _asking(folder: str) -> Iterator[None]:
    with asking(asks=True), trace(folder):
        yield


@contextmanager
def _silent(folder: str) -> Iterator[None]:
    with asking(asks=False), trace(folder):
        yield


def measure() -> list[Cost]:
    """Each program on the ranks of this one."""
    return [_cost(name, size) for name, size in SIZES.items()]


def _cost(name: str, size: int) -> Cost:
    counted = [0]
    with PROGRAMS[name][0](size) as step, tempfile.TemporaryDirectory() as home:
        events = events_a_step(step)
        took = in_turn(step, {"with": _asking, "without": _silent}, home)
        with ExitStack() as patches:
            for kind, names in ASKERS:
                for each in names:
                    patches.enter_context(
                        mock.patch.object(kind, each, _counting(getattr(kind, each), counted))
                    )
            with trace(f"{home}/{dist.get_rank()}-counted"):
                step()
                counted[0] = 0
                step()
    step_us = statistics.median(took["without"])
    with_over = ratios(took, "with", "without")
    return Cost(name, events, with_over, counted[0], step_us, _question_ns())


def _counting(function: Callable[..., Any], counted: list[int]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        counted[0] += 1
        return function(*args, **kwargs)

    return call


def _question_ns() -> float:
    """CPU time of one, the least of some turns; a loop's own is taken off."""
    asking_ns, empty_ns = [], []
    for _ in range(5):
        begin = time.thread_time_ns()
        for _ in range(_LOOPS):
            if gate.is_closed:
                raise AssertionError
        asking_ns.append(time.thread_time_ns() - begin)
        begin = time.thread_time_ns()
        for _ in range(_LOOPS):
            pass
        empty_ns.append(time.thread_time_ns() - begin)
    return (min(asking_ns) - min(empty_ns)) / _LOOPS


def train(folder: str, seconds: float) -> int:
    """Steps of DDP for so long; returns how many. All ranks end after the same step."""
    steps = 0
    with PROGRAMS["DDP"][0](20) as step, trace(folder):
        end = time.monotonic() + seconds
        over = torch.zeros(1)
        while not over.item():
            step()
            steps += 1
            over.fill_(time.monotonic() > end)
            dist.all_reduce(over)
    return steps


def stops_ms(num_ranks: int) -> list[float]:
    """From when ranks that run are told to stop until the last that does stands, in ms.

    Others wait then in a collective for those that stand before it.
    """
    door, found = Door(), []
    controller = Controller(door)
    with tempfile.TemporaryDirectory() as home:
        running = threading.Thread(
            target=run_ranks,
            args=(train, num_ranks, f"{home}/run", NUM_STOPS * 1.5),
            kwargs={"environment": {DEBUG_VARIABLE: str(door.path)}},
        )
        running.start()
        controller.begin()
        for _ in range(NUM_STOPS):
            for link in controller.links:
                link.standing.clear()
                door.tell(link, "run", breakpoints=[])
            time.sleep(0.1)
            begin = time.monotonic()
            for link in controller.links:
                door.tell(link, "stop")
            problem = controller.settle(list(controller.here))
            assert problem is None, problem
            found.append((max(one.heard_s for one in controller.standing()) - begin) * 1000)
        controller.detach()
        running.join()
        door.close()
    return found


def table() -> list[str]:
    """The report's part."""
    load_before = os.getloadavg()[0]
    costs = run_ranks(measure, 2, deadline_s=1800)[0]
    options = run_ranks(measure_options, 2, deadline_s=1800)[0]
    stops = sorted(stops_ms(4))
    lines = [
        "## The gate",
        "",
        (
            f"`python -m tests.bench --only gate`, {datetime.now(UTC):%Y-%m-%d}: 2 ranks, one "
            f"thread each, torch {torch.__version__}. The ratio is the CPU time of traced steps "
            f"with the check of the gate, divided by that of the same steps without it: the median "
            f"of {NUM_PAIRS} pairs with its quartiles. {quiet(load_before)}"
        ),
        "",
        "| program | events | step | ratio | quartiles | checks | one check | computed |",
        "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    for one in costs:
        first, middle, third = statistics.quantiles(one.ratios, n=4)
        share = one.asked * one.question_ns / 1000 / one.step_us
        lines.append(
            f"| {one.name} | {one.events:.0f} | {one.step_us / 1000:.1f} ms | **{middle:.4f}** "
            f"| {first:.4f} to {third:.4f} | {one.asked:.0f} | {one.question_ns:.0f} ns "
            f"| **{share:.4%}** |"
        )
    return [
        *lines,
        "",
        (
            '"Checks" is the number of checks in a step, "one check" the time of a single check, '
            'and "computed" their product as a share of the step.'
        ),
        "",
        (
            "The same measurement for two options of a trace: `--debuggable`, and checksums in "
            "each iteration (checksums in every n-th iteration cost 1/n as much)."
        ),
        "",
        *options_table(options),
        "",
        (
            f"The gate was closed {len(stops)} times while 4 ranks trained with DDP on "
            f"{os.cpu_count()} cores. The last rank stopped after "
            f"{statistics.median(stops):.1f} ms (median), {stops[0]:.1f} to {stops[-1]:.1f} ms of "
            "wall time. Other ranks may already wait for it in the next collective. The time "
            "depends on the load of the machine."
        ),
    ]
