"""How loading, building and analysing grow with the number of events: time, memory, exponent.

`python -m tests.bench.scale`. Each size is measured in a process of its own.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.analysis.graph.runs import Plan, record
from tests.strategies import Row, said_once, trace_files, write_files
from zerosim.analysis import bandwidths, budgets, critical_path, slack
from zerosim.analysis.graph import build_graph, check_graph
from zerosim.record import load, match_collectives
from zerosim.schema.events import Template

SIZES = (10_000, 100_000, 1_000_000)
NUM_RANKS = 4
_UNITS = tuple(f"blocks.{index}" for index in range(24))
_FACE_AT_MOST = 100_000
"""Events whose networkx face is made: of a million it would not fit into 2 GB."""


def write_run(folder: Path, num_events: int) -> int:
    """Write a ring's ZeRO-3 of about so many events; returns how many they are."""
    per_iteration = _count(record(Plan(num_ranks=NUM_RANKS, units=_UNITS, iterations=1)).rows)
    plan = Plan(
        num_ranks=NUM_RANKS,
        units=_UNITS,
        iterations=max(1, round(num_events / per_iteration)),
        compute_ns=lambda rank, unit, _: 900_000 + 40_000 * rank + 1000 * len(unit),
        hop_ns=100_000,
        gap_ns=20_000,
        handover_ns=30_000,
        wake_ns=30_000,
    )
    written = record(plan)
    as_recorded = {rank: list(_with_templates(rows)) for rank, rows in written.rows.items()}
    write_files(folder, trace_files(replace(written, rows=as_recorded), sealed_after=64))
    return _count(written.rows)


def _count(rows: dict[int, list[Row]]) -> int:
    return sum(name in ("open", "event", "transfer") for one in rows.values() for name, _ in one)


def _with_templates(rows: list[Row]) -> Iterator[Row]:
    """The rows of one rank as a program's rank writes them: what recurs is said once."""
    numbers: dict[Template, int] = {}
    for name, record_ in rows:
        if name not in _SHORT:
            yield name, record_
            continue
        template, occurrence = said_once(record_, 0)
        if template not in numbers:
            numbers[template] = len(numbers)
            yield "template", replace(template, number=numbers[template])
        yield _SHORT[name], replace(occurrence, template=numbers[template])


_SHORT = {"open": "begin", "event": "happened"}


def measure(folder: Path, *, face: bool) -> dict[str, float]:
    """Seconds of CPU of each step, and the peak of memory in MB after it."""
    found: dict[str, float] = {}
    watch = _Watch(found)
    trace = watch("load", lambda: load(folder))
    matching = watch("match", lambda: match_collectives(trace))
    graph = watch("build", lambda: build_graph(trace, matching))
    watch("check", lambda: check_graph(graph))
    watch("path", lambda: critical_path(graph))
    watch("slack", lambda: slack(graph))
    watch("budgets", lambda: budgets(graph))
    watch("bandwidth", lambda: bandwidths(graph))
    found["nodes"], found["edges"] = graph.num_nodes, graph.num_edges
    found["total"] = sum(value for name, value in found.items() if name.endswith(" s"))
    found["peak"] = _peak_mb()
    if face:
        _Watch(found)("networkx", graph.to_networkx)
    return found


class _Watch:
    def __init__(self, found: dict[str, float]) -> None:
        self.found = found

    def __call__(self, name: str, work: Callable[[], Any]) -> Any:
        used = time.process_time()  # what other processes do changes it least
        result = work()
        self.found[f"{name} s"] = time.process_time() - used
        self.found[f"{name} MB"] = _peak_mb()
        return result


def _peak_mb() -> float:
    # not getrusage: that begins with the peak of the process that started this one
    status = Path("/proc/self/status").read_text()
    kilobytes = next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]
    return int(kilobytes) * 1024 / 1e6


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of time over size, both as logarithms, by least squares: 1 is linear."""
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in seconds]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean_x) ** 2 for a in x)


_STEPS = ("load", "match", "build", "check", "path", "slack", "budgets", "bandwidth")


def table(sizes: tuple[int, ...] = SIZES) -> list[str]:
    """The figures as lines of Markdown."""
    rows = list(_measure_all(sizes))
    counts = [int(row["events"]) for row in rows]
    columns = (
        "events", "nodes", "edges", *_STEPS, "**all**", "peak", "networkx", "its peak",
    )  # fmt: skip
    lines = [
        "## The event graph at scale",
        "",
        (
            f"ZeRO-3 with rings on {NUM_RANKS} ranks, hops included, read from files, in CPU "
            "seconds of a new process."
        ),
        "",
        f"| {' | '.join(columns)} |",
        "| --- " * len(columns) + "|",
    ]
    for count, row in zip(counts, rows, strict=True):
        steps = " | ".join(f"{row[f'{step} s']:.2f}" for step in _STEPS)
        face = "not made | |"
        if "networkx s" in row:
            face = f"{row['networkx s']:.2f} | {row['networkx MB']:,.0f} MB |"
        lines.append(
            f"| {count:,} | {row['nodes']:,} | {row['edges']:,} | {steps} "
            f"| **{row['total']:.2f}** | {row['peak']:,.0f} MB | {face}"
        )
    if len(rows) > 1:
        fits = [exponent(counts, [row[f"{step} s"] for row in rows]) for step in _STEPS]
        whole = exponent(counts, [row["total"] for row in rows])
        cells = " | ".join(f"{fit:.2f}" for fit in fits)
        lines.append(f"| exponent | | | {cells} | **{whole:.2f}** | | | |")
    lines += [
        "",
        (
            "`networkx` is the whole graph as a DiGraph with all attributes. The "
            f"analyses do not need it, and beyond {_FACE_AT_MOST:,} events only one iteration is "
            "written at a time."
        ),
        "",
    ]
    return lines


def _measure_all(sizes: tuple[int, ...]) -> Iterator[dict[str, float]]:
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            written = _own_process("write", folder, size)
            yield {**_own_process("measure", folder, size), "events": written["events"]}


def _own_process(what: str, folder: str, size: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.scale", what, folder, str(size)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def main(arguments: list[str]) -> None:
    """Measure everything, or one step for the process that does."""
    if not arguments:
        print("\n".join(table()))
        return
    what, folder, size = arguments[0], Path(arguments[1]), int(arguments[2])
    if what == "write":
        answer = {"events": float(write_run(folder, size))}
    else:
        answer = measure(folder, face=size <= _FACE_AT_MOST)
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
