"""How much of what offload copies is hidden behind computing, and what that is worth.

Each system trains with and without overlap, run in turn; copies and what stalled the program
come from the traces' event graphs.
"""

from __future__ import annotations

import statistics
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.pairs import Pairs
from zerosim.analysis import Budget, budgets
from zerosim.analysis.graph import build_graph
from zerosim.base.config import SYSTEMS, EngineConfig, ModelName, RunConfig
from zerosim.cli.jobs import launch_job
from zerosim.record import load
from zerosim.train.launch.job import Job

NAMES = ("offload-2", "offload-2-delayed", "offload-3", "infinity-cpu", "infinity-nvme")
PAIRS = 5
STEPS = 4
RUN = RunConfig(model=ModelName.GPT_SMALL, ranks=2, steps=STEPS, batch=4, memory=False)


@dataclass(frozen=True)
class Measured:
    """One run.

    Attributes:
        step_ns: median, the first step left out.
        budget: of both ranks together, of the last step.
    """

    step_ns: int
    budget: Budget


def table() -> list[str]:
    """The part of docs/bench.md."""
    systems = [system for system in SYSTEMS if system.name in NAMES]
    lines = [
        "## Overlap of offload",
        "",
        (
            f"{RUN.model}, bf16, {RUN.ranks} ranks, {PAIRS} pairs of runs of {STEPS} steps, "
            'alternately with and without overlap. "Copies" is the time of all copies of both '
            'ranks in a step, "exposed" the part that stalled the program, and "hidden" the '
            'rest. "Ratio" is the time of a step with overlap, divided by that without: the '
            "median of the pairs and quartiles. Both ranks and their copies share the cores of "
            "the machine, so hidden copies are not free."
        ),
        "",
        "| system | copies, ms | exposed, ms | hidden | exposed without overlap, ms | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for system in systems:
            overlapped = system.configure(EngineConfig(), f"{folder}/disk")
            lines.append(_row(system.title, overlapped, Path(folder) / system.name))
    return lines


def _row(title: str, overlapped: EngineConfig, folder: Path) -> str:
    engines = []
    for pair in range(PAIRS):
        order = (True, False) if pair % 2 == 0 else (False, True)
        for overlap in order:
            name = f"{pair}-{'with' if overlap else 'without'}"
            engines.append((replace(overlapped, overlap=overlap), folder / name))
    with ExitStack() as held:
        launch_job(Job(RUN, tuple(engines)), held)
    found = {path.name: _measure(path) for _, path in engines}
    hidden = [found[f"{pair}-with"] for pair in range(PAIRS)]
    plain = [found[f"{pair}-without"] for pair in range(PAIRS)]
    pairs = Pairs(
        tuple(one.step_ns / 1e9 for one in hidden), tuple(one.step_ns / 1e9 for one in plain)
    )
    first, third = pairs.spread
    return (
        f"| {title} | {_all_copies(hidden):.1f} | {_exposed(hidden):.1f} | "
        f"{statistics.median(one.budget.copying_overlap or 0 for one in hidden):.0%} | "
        f"{_exposed(plain):.1f} | {pairs.ratio:.3f} ({first:.3f} to {third:.3f}) |"
    )


def _all_copies(runs: list[Measured]) -> float:
    return statistics.median(
        (one.budget.copying_ns + one.budget.hidden_copying_ns) / 1e6 for one in runs
    )


def _exposed(runs: list[Measured]) -> float:
    return statistics.median(one.budget.copying_ns / 1e6 for one in runs)


def _measure(folder: Path) -> Measured:
    graph = build_graph(load(folder, strict=True))
    walls = [budgets(graph.within(step)).of(rank=0).wall_ns for step in range(1, STEPS)]
    return Measured(
        step_ns=round(statistics.median(walls)),
        budget=budgets(graph.within(STEPS - 1)).of(),
    )
