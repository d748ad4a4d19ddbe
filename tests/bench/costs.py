"""What an event of a trace costs, part by part, however busy the machine is.

CPU time of the threads that work, the least of several turns: what other programs take of the
machine is not in it, though what they leave of its caches is. A part's time is its functions' own,
without that of the parts that they call; each call of one pays about a microsecond for being timed,
so the parts together may be more than the program's own account of what tracing adds. Beside it
stand PyTorch's own witnesses, and what an empty function of Python costs in our place.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from tests.bench.events import quiet
from tests.bench.floor import floor
from tests.bench.pairs import Around, Step
from tests.bench.programs import ABSENT, PROGRAMS, cpu_us, events_a_step
from tests.ranks import run_ranks
from tests.systems.witness import counting
from zerosim.trace import rowfile, trace, writer
from zerosim.trace.autolabel import modules
from zerosim.trace.autolabel.labeler import AutoLabeler
from zerosim.trace.autolabel.phases import Phases
from zerosim.trace.autolabel.units import Units
from zerosim.trace.calls import Calls
from zerosim.trace.ledger import MemoryLedger
from zerosim.trace.recorder import Recorder
from zerosim.trace.rowfile import RowFile
from zerosim.trace.saved import SavedTensors
from zerosim.trace.wire import Connections
from zerosim.trace.writer import EventWriter

TURNS = 5
EVENTS = 1500
"""In a turn, about; a turn has five steps at least."""

PARTS: dict[str, tuple[tuple[Any, tuple[str, ...]], ...]] = {
    "interception": (
        (Calls, ("issued", "performed", "waits", "waits_for_tensor", "waited", "_is_over")),
    ),
    "label": (
        (modules, ("_say_begins", "_say_ends")),
        (Units, ("_goes_back", "_root_goes_back")),
        (Phases, ("module_begins", "module_ends", "backward_begins", "backward_ends")),
        (Phases, ("optimizer_begins", "step_begins", "step_ends", "gradients_cleared")),
        (AutoLabeler, ("explain", "forward_begins", "backward_begins", "optimizer_begins")),
    ),
    "event": (
        (EventWriter, ("begin", "end", "write_wait")),
        (Recorder, ("open_compute", "close_compute", "close", "stalled")),
    ),
    "row": (
        (rowfile, ("row_text", "seal")),
        (MemoryLedger, ("_row",)),
        (writer, ("begin_row", "happened_row", "close_row", "_close_row")),
    ),
    "write": ((RowFile, ("write", "append")),),
    "look": ((MemoryLedger, ("_look", "uses")), (SavedTensors, ("_count", "changes"))),
    "wire": ((Connections, ("scan", "read")),),
    "border": ((Recorder, ("entered",)),),
}
"""The functions that a part enters by: those of a class, or of a module."""


_NO_RECORDER = {"TORCH_FR_BUFFER_SIZE": "0"}
"""PyTorch's Flight Recorder is on by itself, also in a rank without tracing."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one program, as rank 0 measured it; microseconds of CPU time an event.

    Attributes:
        others_us: what PyTorch's own witnesses add.
        elsewhere_us: what of the tracing is done by threads that are not the program's: each keeps
            Python's lock from the program so long.
        threads: how many the tracer has started.
    """

    name: str
    events: float
    untraced_us: float
    without_memory_us: float
    traced_us: float
    light_us: float
    others_us: dict[str, float]
    parts_us: dict[str, float]
    elsewhere_us: float
    threads: int


class Meter:
    """Each part's own time, of all threads together, and that of other threads than this one."""

    def __init__(self) -> None:
        self.spent_ns: Counter[str] = Counter()
        self.elsewhere_ns = 0
        self._own = threading.get_ident()
        self._thread = threading.local()

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Time the parts of any trace that begins and ends inside."""
        with ExitStack() as patches:
            for part, homes in PARTS.items():
                for home, names in homes:
                    for name in names:
                        timed = self._timed(part, getattr(home, name))
                        patches.enter_context(mock.patch.object(home, name, timed))
            yield

    def clear(self) -> None:
        """Forget what was spent so far."""
        self.spent_ns.clear()
        self.elsewhere_ns = 0

    def _timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            inner: list[int] = self._thread.__dict__.setdefault("inner", [])
            inner.append(0)
            begin = time.thread_time_ns()
            try:
                return function(*args, **kwargs)
            finally:
                spent = time.thread_time_ns() - begin
                own = spent - inner.pop()
                self.spent_ns[part] += own
                if threading.get_ident() != self._own:
                    self.elsewhere_ns += own
                if inner:
                    inner[-1] += spent

        return call


def measure() -> list[Cost]:
    """Each program on the ranks of this one, with about 10, 50 and 300 events a step."""
    costs = []
    for name, (make, sizes) in PROGRAMS.items():
        for size in sizes:
            with make(size) as step:
                costs.append(_cost(name, step))
    return costs


def measure_untraced() -> list[float]:
    """CPU time a step of the same programs, in microseconds."""
    found = []
    for make, sizes in PROGRAMS.values():
        for size in sizes:
            with make(size) as step:
                steps = _num_steps(events_a_step(step))
                found.append(min(_us(step, steps, nullcontext) for _ in range(TURNS)))
    return found


def table() -> list[str]:
    """The report's part."""
    load_before = os.getloadavg()[0]
    costs = run_ranks(measure, 2, deadline_s=1800)[0]
    with mock.patch.dict(os.environ, _NO_RECORDER):
        without_recorder_us = run_ranks(measure_untraced, 2, deadline_s=1800)[0]
    others = list(costs[0].others_us)
    lines = [
        "## What an event costs, part by part",
        "",
        (
            f"`python -m tests.bench --only costs`, {datetime.now(UTC):%Y-%m-%d}: 2 ranks, one "
            f"thread each, layers of 32 x 32, torch {torch.__version__}. The table gives the CPU "
            f"time of rank 0 in microseconds per event, the minimum of {TURNS} turns of about "
            f"{EVENTS:,} events. {quiet(load_before)}"
        ),
        "",
        f"| program | events | light | without memory | traced | {' | '.join(PARTS)} |",
        f"| --- |{' ---: |' * (len(PARTS) + 4)}",
        *(
            f"| {one.name} | {one.events:.0f} | **{one.light_us:.0f} µs** "
            f"| **{one.without_memory_us:.0f} µs** | **{one.traced_us:.0f} µs** "
            f"| {' | '.join(f'{one.parts_us[part]:.1f}' for part in PARTS)} |"
            for one in costs
        ),
        "",
        (
            '"Traced" is the time that tracing adds to all threads of the process. A part is its '
            "time with memory, plus about a microsecond for each entry. A light "
            "trace records one step in ten; its cost is divided by the number of events in a whole "
            "trace."
        ),
        "",
        "Other tools add this time to the same steps, in microseconds per event:",
        "",
        f"| program | events | {' | '.join(others)} | Flight Recorder |",
        f"| --- |{' ---: |' * (len(others) + 2)}",
    ]
    for one, without_us in zip(costs, without_recorder_us, strict=True):
        told = [one.others_us[name] for name in others]
        told.append((one.untraced_us - without_us) / one.events)
        lines.append(
            f"| {one.name} | {one.events:.0f} | {' | '.join(f'{us:.1f}' for us in told)} |"
        )
    elsewhere = max(costs, key=lambda one: one.elsewhere_us)
    empty = ", ".join(f"{us:.1f} µs for {name}" for name, us in floor().items())
    return [
        *lines,
        "",
        (
            "PyTorch's Flight Recorder is on by default, so all other numbers include it. "
            "Its column shows the difference between ranks with and without the Flight Recorder."
        ),
        (
            f"Empty Python functions add {empty}, each time. The tracer starts "
            f"{max(one.threads for one in costs)} threads of its own. In the threads of the "
            "backend and of zerosim's engine, tracing takes at most "
            f"{elsewhere.elsewhere_us:.1f} µs per event ({elsewhere.name}, "
            f"{elsewhere.events:.0f} events), and the training thread waits for Python's lock "
            "no longer than that."
        ),
        *([] if any(name.startswith("DeepSpeed") for name in PROGRAMS) else [ABSENT]),
    ]


def _cost(name: str, step: Step) -> Cost:
    meter, metered = Meter(), dict.fromkeys(PARTS, float("inf"))
    elsewhere_us = float("inf")
    events = events_a_step(step)
    steps = _num_steps(events)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, str(dist.get_rank()))
        ways: dict[str, Around] = {
            "untraced": nullcontext,
            "without memory": _tracing(f"{home}-without", memory=False),
            "traced": _tracing(f"{home}-traced"),
            "light": _tracing(f"{home}-light", light=True),
            "CommDebugMode, modules aside": counting,
            "torch.profiler": lambda: profile(activities=[ProfilerActivity.CPU]),
        }
        least = dict.fromkeys(ways, float("inf"))
        for number in range(TURNS):
            for way, around in ways.items():
                least[way] = min(least[way], _us(step, steps, around))
            threads = _num_threads()  # of PyTorch's profiler, too, which keeps its own
            with meter.timing(), trace(f"{home}-timed-{number}"):
                step()
                meter.clear()
                cpu_us(step, steps)
                own = {part: meter.spent_ns[part] / 1000 / steps for part in PARTS}
                metered = {part: min(metered[part], us) for part, us in own.items()}
                elsewhere_us = min(elsewhere_us, meter.elsewhere_ns / 1000 / steps)
                threads_in_trace = _num_threads()
    added = {way: (us - least["untraced"]) / events for way, us in least.items()}
    return Cost(
        name=name,
        events=events,
        untraced_us=least.pop("untraced"),
        without_memory_us=added["without memory"],
        traced_us=added["traced"],
        light_us=added["light"],
        others_us={way: added[way] for way in list(ways)[4:]},
        parts_us={part: us / events for part, us in metered.items()},
        elsewhere_us=elsewhere_us / events,
        threads=threads_in_trace - threads,
    )


def _tracing(home: str, **options: bool) -> Around:
    """A new trace each time, beside the others."""
    numbers = count()
    return lambda: trace(f"{home}-{next(numbers)}", **options)


def _num_steps(events: float) -> int:
    """As rank 0 counts: how often a rank waits differs, and all take the same steps."""
    agreed = torch.tensor(max(5, round(EVENTS / events)))
    dist.broadcast(agreed, 0)
    return int(agreed)


def _us(step: Step, steps: int, around: Around) -> float:
    with around():
        step()  # what is met for the first time
        return cpu_us(step, steps)


def _num_threads() -> int:
    """Of this process, PyTorch's own too."""
    return sum(1 for _ in Path("/proc/self/task").iterdir())
