"""How far predictions are from real runs on this machine.

Constants are fitted to runs of two ranks in stage 3. All other runs are predicted: those of
zerosim's engine and of PyTorch's systems are done dry, on the machine that was fitted. Runs are
recorded in turn, all of them and then all again, so that a machine that changes its pace does so
for all of them. What was recorded can be kept, and be judged again on another day:

    python -m tests.bench --only simulate --kept FOLDER    # records, and keeps
    python -m tests.bench.real FOLDER                      # judges what is there, and prints
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench.events import BUSY, quiet
from tests.predict.simulate.test_dry import peaks
from zerosim.base.config import EngineConfig, Implementation, ModelName, RunConfig
from zerosim.cli.jobs import launch_job
from zerosim.predict.placement import Modelled, load_machine, place
from zerosim.predict.placement.calibrate import calibrate, write_machine
from zerosim.predict.placement.machine import Machine
from zerosim.predict.simulate.counted import CountedDry
from zerosim.predict.simulate.simulate import run_dry
from zerosim.record import Trace, load
from zerosim.schema.memory import Role
from zerosim.train.launch.forkserver import keep
from zerosim.train.launch.job import Job
from zerosim.view.reading import Run

TURNS, STEPS = 2, 5
_TOLD = 0.05
"""So much less or more of the critical path is told."""
QUIET = "quiet.txt"
"""In a folder of recordings, whether the machine was quiet when they were begun."""
_TINY: Any = {"model": ModelName.GPT_TINY}
_SMALL: Any = {"model": ModelName.GPT_SMALL}
_MLP: Any = {"model": ModelName.MLP}


@dataclass(frozen=True, eq=False)
class Case:
    """One run: what is trained on how many ranks, and by whom.

    Attributes:
        who: zerosim's engine with these options; or one of PyTorch's systems.
        alike: of a system, the stage whose computations have the same operators.
    """

    name: str
    ranks: int
    run: Mapping[str, Any]
    who: Mapping[str, Any] | Implementation
    alike: int = 0

    @cached_property
    def config(self) -> RunConfig:
        """Of its run."""
        return RunConfig(ranks=self.ranks, steps=STEPS, **self.run)

    @property
    def engine(self) -> EngineConfig:
        """What trains it, or has the same operators."""
        if isinstance(self.who, Implementation):
            return EngineConfig(stage=self.alike, dtype="fp32")
        return EngineConfig(**self.who)

    @property
    def trained(self) -> EngineConfig | Implementation:
        """Who trains it."""
        return self.who if isinstance(self.who, Implementation) else self.engine


@dataclass
class Recorded:
    """What a case took, in all turns."""

    case: Case
    traces: list[Trace] = field(default_factory=list)

    @cached_property
    def step_ns(self) -> float:
        """The median of the iterations after the first."""
        return median(one.duration_ns for one in self._paths)

    @cached_property
    def shares(self) -> dict[str, float]:
        """Of the critical path, by cause, in the median."""
        causes = [one.by_cause() for one in self._paths]
        names = {cause for one in causes for cause in one}
        return {
            str(cause): median(
                one.get(cause, 0) / path.duration_ns
                for one, path in zip(causes, self._paths, strict=True)
            )
            for cause in names
        }

    @cached_property
    def _paths(self) -> list[Any]:
        runs = [Run(trace) for trace in self.traces]
        return [
            run.graph_report(iteration=iteration).path
            for run in runs
            for iteration in run.iterations[1:]
        ]


FITTED = (
    Case("stage 3, gpt-tiny", 2, _TINY, {"stage": 3}),
    Case("stage 3, gpt-small", 2, _SMALL, {"stage": 3}),
    Case("stage 3, native", 2, _TINY, {"stage": 3, "collectives": "native"}),
    Case("stage 3, states on the host", 2, _TINY, {"stage": 3, "offload_optimizer": "cpu"}),
    Case("stage 3, without overlap", 2, _TINY, {"stage": 3, "overlap": False}),
    Case("stage 3, fp32", 2, _TINY, {"stage": 3, "dtype": "fp32"}),
)
PREDICTED = (
    Case("stage 0", 2, _TINY, {"stage": 0}),
    Case("stage 1", 2, _TINY, {"stage": 1}),
    Case("stage 2", 2, _TINY, {"stage": 2}),
    Case("stage 0, gpt-small", 2, _SMALL, {"stage": 0}),
    Case("stage 2, gpt-small", 2, _SMALL, {"stage": 2}),
    Case("stage 3, gpt-small, without overlap", 2, _SMALL, {"stage": 3, "overlap": False}),
    Case("stage 3, three units ahead", 2, _TINY, {"stage": 3, "prefetch": 3}),
    Case("stage 2, small buckets", 2, _TINY, {"stage": 2, "bucket_elements": 100_000}),
    Case("stage 3, two micro-steps", 2, _TINY, {"stage": 3, "accumulate": 2}),
    Case("stage 3, twice the batch", 2, {**_TINY, "batch": 8}, {"stage": 3}),
    Case("stage 3, twice the layers", 2, {**_TINY, "layers": 8}, {"stage": 3}),
    Case("stage 3, checkpoints", 2, _TINY, {"stage": 3, "checkpoint_activations": True}),
    Case("stage 3, mlp", 2, _MLP, {"stage": 3}),
    Case("stage 0, native", 2, _TINY, {"stage": 0, "collectives": "native"}),
    Case("stage 2, states on the host", 2, _TINY, {"stage": 2, "offload_optimizer": "cpu"}),
    Case("stage 3", 3, _TINY, {"stage": 3}),
    Case("stage 3", 4, _TINY, {"stage": 3}),
    Case("stage 0", 4, _TINY, {"stage": 0}),
    Case("stage 2", 3, _TINY, {"stage": 2}),
    Case("stage 3, native", 4, _TINY, {"stage": 3, "collectives": "native"}),
    Case("stage 3, gpt-small", 4, _SMALL, {"stage": 3}),
    Case("stage 3, states on the host", 4, _TINY, {"stage": 3, "offload_optimizer": "cpu"}),
    Case("DDP", 2, _TINY, Implementation.DDP),
    Case("FSDP2", 2, _TINY, Implementation.FSDP2, alike=3),
    Case("DDP", 4, _TINY, Implementation.DDP),
    Case("FSDP2", 3, _TINY, Implementation.FSDP2, alike=3),
)
"""None of them is fitted to."""


def table(kept: Path | None = None) -> list[str]:
    """The report's part, of what is recorded in `kept`; what is not there yet is recorded."""
    with ExitStack() as held:
        folder = kept or Path(held.enter_context(TemporaryDirectory(prefix="zerosim-real-")))
        said = _was_quiet(folder)
        return report(record((*FITTED, *PREDICTED), folder), said)


def _was_quiet(folder: Path) -> str:
    """Whether the machine was when recordings of a folder were begun: now, if there are none."""
    file = folder / QUIET
    if not file.exists():
        load_before = os.getloadavg()[0]
        if load_before > BUSY:
            print(f"{quiet(load_before)} Take these figures for none.", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(quiet(load_before))
    return file.read_text()


def report(recorded: Mapping[Case, Recorded], said: str) -> list[str]:
    """What the runs show; `said` is whether the machine was quiet."""
    fitted = [case for case in recorded if case in FITTED]
    machine, text = calibrated([recorded[case] for case in fitted])
    rows = [_Row(one, machine) for case, one in recorded.items() if case not in FITTED]
    offs = [abs(row.off) for row in rows]
    apart = [row.apart for row in rows]
    turns = median(row.turns_apart for row in rows)
    return [
        f"Real runs on this machine, {TURNS} turns of {STEPS} steps. The constants are fitted to",
        f"the first {len(fitted)}, all of 2 ranks in stage 3. {said}",
        "",
        f"The median error of {len(offs)} runs is **{100 * median(offs):.1f} %**, the largest",
        f"{100 * max(offs):.1f} %. The largest difference in the shares of the critical path has",
        f"a median of {100 * median(apart):.0f} percentage points, at most {100 * max(apart):.0f}.",
        f"Between the first and the last turn, its median is {100 * turns:.0f}.",
        "",
        "| run | ranks | recorded, ms | predicted, ms | error | path | peaks of memory |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
        *(f"| {_fitted_row(recorded[case])} |" for case in fitted),
        *(row.text() for row in rows),
        "",
        '"Path" is the difference between predicted and recorded shares of the critical path',
        f"in percentage points, if at least {100 * _TOLD:.0f}. Each run has a dry run. The peaks",
        "of DDP and FSDP2 are not compared.",
        "",
        "The fitted constants:",
        "",
        *("    " + line for line in text.splitlines()),
    ]


def record(cases: Sequence[Case], folder: Path) -> dict[Case, Recorded]:
    """Do all runs, one after another, as often as there are turns; those that are there stay."""
    keep()  # else each run would import PyTorch again
    found = {case: Recorded(case) for case in cases}
    for turn in range(TURNS):
        for case in cases:
            where = folder / f"{case.name} on {case.ranks}, turn {turn + 1}"
            if not where.exists():
                with TemporaryDirectory(dir=folder) as home, ExitStack() as held:
                    own = Path(home, "run")
                    launch_job(Job(case.config, ((case.trained, own),)), held)
                    own.rename(where)  # only what is whole has its name
                print(where.name, file=sys.stderr, flush=True)
            found[case].traces.append(load(where))
    return found


def calibrated(fitted: Sequence[Recorded]) -> tuple[Machine, str]:
    """The machine that these ran on, and its file."""
    seen = [
        (trace, CountedDry(one.case.config, one.case.engine))
        for one in fitted
        for trace in one.traces
    ]
    cores = float(len(os.sched_getaffinity(0)))
    text = write_machine(calibrate(seen), "this machine", "python -m tests.bench", cores)
    with TemporaryDirectory(prefix="zerosim-machine-") as folder:
        file = Path(folder, "here.toml")
        file.write_text(text)
        return load_machine(str(file)), text


def predicted_run(recorded: Recorded, machine: Machine) -> Run:
    """The same on the machine that was fitted."""
    case = recorded.case
    with TemporaryDirectory(prefix="zerosim-dry-") as folder:
        path = Path(folder)
        run_dry(Job(case.config, ((case.trained, path),)), case.trained, path, machine)
        return Run(place(load(path), Modelled(machine)))


def gaps(some: Recorded, others: Recorded) -> dict[str, float]:
    """By cause, its share of the critical path in some runs less that in others."""
    names = sorted({*some.shares, *others.shares})
    return {name: some.shares.get(name, 0) - others.shares.get(name, 0) for name in names}


def _most(gaps: Mapping[str, float]) -> float:
    return max(map(abs, gaps.values()))


class _Row:
    """One predicted run, against what it was."""

    def __init__(self, recorded: Recorded, machine: Machine) -> None:
        self.recorded = recorded
        run = predicted_run(recorded, machine)
        own = Recorded(recorded.case, [run.trace])
        self.predicted_ns = own.step_ns
        self.gaps = gaps(own, recorded)
        self.peaks = _peaks(recorded, run.trace)

    @property
    def off(self) -> float:
        return self.predicted_ns / self.recorded.step_ns - 1

    @property
    def apart(self) -> float:
        """What the share that differs most differs by."""
        return _most(self.gaps)

    @property
    def turns_apart(self) -> float:
        """The same of the first turn and the last."""
        case, (first, *_, last) = self.recorded.case, self.recorded.traces
        return _most(gaps(Recorded(case, [last]), Recorded(case, [first])))

    def _path(self) -> str:
        """The shares that differ, the most first: what is predicted less what was recorded."""
        ordered = sorted(self.gaps.items(), key=lambda one: -abs(one[1]))
        words = [f"{name} {100 * gap:+.0f}" for name, gap in ordered if abs(gap) >= _TOLD]
        return ", ".join(words) or f"{100 * self.apart:.0f}"

    def text(self) -> str:
        case = self.recorded.case
        return (
            f"| {case.name} | {case.ranks} | {self.recorded.step_ns / 1e6:.1f} "
            f"| {self.predicted_ns / 1e6:.1f} | {100 * self.off:+.1f} % "
            f"| {self._path()} | {self.peaks} |"
        )


def _fitted_row(recorded: Recorded) -> str:
    case = recorded.case
    return f"{case.name} | {case.ranks} | {recorded.step_ns / 1e6:.1f} | | fitted | |"


def _peaks(recorded: Recorded, dry: Trace) -> str:
    """Whether each role has the peak that it had."""
    if isinstance(recorded.case.who, Implementation):
        return "not compared"
    # with overlap, how long these live is up to the threads
    but = {Role.BUFFERS} if recorded.case.engine.overlap else set()
    wrong: set[str] = set()
    for rank, other in zip(recorded.traces[-1].ranks, dry.ranks, strict=True):
        was, would = peaks(rank, but), peaks(other, but)
        both = {*was, *would}
        wrong |= {one[1] for one in both if was.get(one) != would.get(one)}
    return f"differ: {', '.join(sorted(wrong))}" if wrong else "equal"


if __name__ == "__main__":
    print("\n".join(table(*map(Path, sys.argv[1:]))))
