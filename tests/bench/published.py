"""How far predictions are from steps that others measured and published.

Each published run is done dry by zerosim's engine, as `zerosim simulate` does it, and placed with
the constants of its generation of software on its hardware, one of
`zerosim/predict/placement/machines`. These are fitted here to the rows of `published.toml` that it
calls `fitted`, and to no other; where a machine file holds another value than the fit, the table
says so.

    python -m tests.bench --only published
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from math import log
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from zerosim.base.config import CollectivesKind, DType, EngineConfig, ModelName, RunConfig
from zerosim.base.tiers import Link
from zerosim.predict.placement import Modelled, load_machine, place
from zerosim.predict.placement.machine import Machine
from zerosim.predict.placement.nccl import Layout, nccl_time
from zerosim.predict.simulate.simulate import run_dry
from zerosim.record import Trace, load
from zerosim.schema.events import Kind, Op
from zerosim.train.launch.job import Job
from zerosim.view.reading import Run

DATA = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
HEADING = "## Published runs"
_MISS, _GOAL = 0.2, 0.1
_STEPS = 2
"""The last is judged: in the first one's forward nothing is gathered ahead, as the order of units
is not known yet, and no published step is a first one."""
_ROUNDED = 0.01
"""What the constants in files are rounded by."""
_ROUNDS = 12
_FIRST = 1.3
_CLOSE = 0.0005
"""How a constant is looked for: at most so often, so far from what its file says, until so near."""


@dataclass(frozen=True)
class Row:
    """One published run: how it was made, and how long its step took."""

    generation: str
    unit: str
    model: str
    gpus: int
    tensor_parallel: int
    batch: int
    accumulate: int
    stage: int
    recomputed: float
    published: float

    @property
    def shape(self) -> dict[str, int]:
        """Of its model, where it is a GPT."""
        found: dict[str, int] = DATA["models"][self.model]["shape"]
        return found

    @property
    def sequences(self) -> int:
        """In a step."""
        return self.gpus // self.tensor_parallel * self.batch * self.accumulate

    @property
    def seconds(self) -> float:
        """A step, as published."""
        tokens = self.sequences * self.shape.get("context_length", 8192)
        match self.unit:
            case "ms":
                return self.published / 1e3
            case "tokens/s":
                return tokens / self.published
            case "tokens/s/GPU":
                return tokens / self.published / self.gpus
        return self._flops() / (self.gpus * self.published * 1e12)

    def _flops(self) -> float:
        """Eq. 3 of Narayanan et al. 2021, which counts forward twice."""
        layers, width = self.shape["layers"], self.shape["width"]
        length, vocabulary = self.shape["context_length"], self.shape["vocabulary"]
        rest = 1 + length / (6 * width) + vocabulary / (16 * layers * width)
        return 96 * self.sequences * length * layers * width**2 * rest


@dataclass(frozen=True)
class Generation:
    """Software on hardware: what is fitted, and to what."""

    name: str
    source: str
    fits: tuple[str, ...]
    fitted: tuple[Row, ...]
    predicted: tuple[Row, ...]


def generations() -> tuple[Generation, ...]:
    """All of `published.toml`."""
    return tuple(
        Generation(
            one["name"],
            one["source"],
            tuple(one["fits"]),
            *(
                tuple(Row(one["name"], one["unit"], *row) for row in one[part])
                for part in ("fitted", "predicted")
            ),
        )
        for one in DATA["generation"]
    )


@cache
def _dry(row: Row, checkpoint: bool) -> Trace:
    """What one rank of it would do."""
    given: dict[str, Any] = row.shape
    run = RunConfig(
        model=ModelName.GPT_3 if given else ModelName(row.model),
        ranks=row.gpus,
        tensor_parallel=row.tensor_parallel,
        steps=_STEPS,
        batch=row.batch,
        memory=False,
        **given,
    )
    config = EngineConfig(
        stage=row.stage,
        dtype=DType.BF16,
        collectives=CollectivesKind.NATIVE,
        accumulate=min(row.accumulate, 2),
        checkpoint_activations=checkpoint,
    )
    with TemporaryDirectory(prefix="zerosim-published-") as folder:
        path = Path(folder)
        run_dry(Job(run, ((config, path),)), config, path, load_machine(row.generation), each=1)
        return load(path)


def predict(row: Row, machine: Machine) -> float:
    """Seconds of a step.

    Micro-steps are alike, so that of many the second begins as long after the first as all that
    follow. What is computed again in part, as with selective recomputation, lies between none and
    all.
    """
    found = 0.0
    for checkpoint, part in ((False, 1 - row.recomputed), (True, row.recomputed)):
        if part:
            found += part * _seconds(_dry(row, checkpoint), row.accumulate, machine)
    return found


def _seconds(trace: Trace, accumulate: int, machine: Machine) -> float:
    run = Run(place(trace, Modelled(machine)))
    last = run.iterations[-1]
    path = run.graph_report(iteration=last).path
    assert path is not None, "a dry run has a critical path"
    begins: dict[int, int] = {}
    for _, event in run.trace.ranks[0].events.of_kind(Kind.COMPUTE):
        if event.iteration == last:
            begins.setdefault(event.micro_step or 0, event.start_ns)
    more = (accumulate - 2) * (begins[1] - begins[0]) if accumulate > 2 else 0
    return (path.duration_ns + more) / 1e9


def fit(generation: Generation) -> Machine:
    """The machine with the constants that its fitted rows have.

    One constant: the rows are off by nothing in the mean of logarithms. Two: each is fitted to a
    row of its own while the other stays, until neither moves.
    """
    machine = load_machine(generation.name)
    if generation.fits == ("achieved",):
        return _solve(machine, "achieved", generation.fitted)
    for _ in range(_ROUNDS if generation.fits else 0):
        before = machine
        for name, row in zip(generation.fits, generation.fitted, strict=True):
            machine = _solve(machine, name, (row,))
        if abs(before.achieved / machine.achieved - 1) < _CLOSE:
            break
    return machine


def _solve(machine: Machine, name: str, rows: Sequence[Row]) -> Machine:
    """By secants: what a constant takes is proportional to its inverse."""

    def off(inverse: float) -> float:
        tried = _with(machine, name, 1 / inverse)
        return sum(log(predict(row, tried) / row.seconds) for row in rows) / len(rows)

    here = 1 / _of(machine, name)
    was, there = off(here), here * _FIRST
    for _ in range(_ROUNDS):
        now = off(there)
        if abs(now) < _CLOSE or now == was:
            break
        step = there - now * (there - here) / (now - was)
        here, was, there = there, now, min(max(step, there / 3), there * 3)
    return _with(machine, name, 1 / there)


def _of(machine: Machine, name: str) -> float:
    if name == "achieved":
        return machine.achieved
    return machine.link(Link.NETWORK).bytes_per_second


def _with(machine: Machine, name: str, value: float) -> Machine:
    if name == "achieved":
        return replace(machine, achieved=value)
    network = replace(machine.link(Link.NETWORK), bytes_per_second=value)
    return replace(machine, links={**machine.links, Link.NETWORK: network})


@dataclass(frozen=True)
class Judged:
    """A row, and what was predicted for it."""

    row: Row
    is_fitted: bool
    predicted_s: float

    @property
    def off(self) -> float:
        """As a part of what was published."""
        return self.predicted_s / self.row.seconds - 1


def judge(generation: Generation) -> tuple[Machine, list[Judged]]:
    """Fit, and predict all of its rows."""
    machine = fit(generation)
    found = []
    for row in (*generation.fitted, *generation.predicted):
        found.append(Judged(row, row in generation.fitted, predict(row, machine)))
        line = f"{generation.name}: {row.model} on {row.gpus}: {100 * found[-1].off:+.1f} %"
        print(line, file=sys.stderr, flush=True)
    return machine, found


def table() -> list[str]:
    """The part of docs/simulate.md."""
    with ProcessPoolExecutor(2) as pool:
        return report(dict(zip(generations(), pool.map(judge, generations()), strict=True)))


def report(judged: _Judged) -> list[str]:
    """The part, of what was judged."""
    offs = [one for _, rows in judged.values() for one in rows if not one.is_fitted]
    misses = [one for one in offs if abs(one.off) > _MISS]
    within = sum(abs(one.off) <= _GOAL for one in offs)
    return [
        HEADING,
        "",
        f"`python -m tests.bench --only published`: {len(offs)} steps that others published,",
        "predicted by a dry run of zerosim's engine and the placement, and not fitted to. Off by",
        f"**{_median(offs)} in the median**, {within} of them by at most {100 * _GOAL:.0f} %,",
        f"{len(misses)} by more than {100 * _MISS:.0f} %.",
        "",
        *_constants(judged),
        "",
        *_rows(judged),
        "",
        "### Misses",
        "",
        *_misses(misses),
        "",
        "### NCCL by itself",
        "",
        *_collectives(),
    ]


def _median(some: Sequence[Judged]) -> str:
    return f"{100 * median(abs(one.off) for one in some):.1f} %"


_Judged = Mapping[Generation, tuple[Machine, list[Judged]]]


def _constants(judged: _Judged) -> Iterator[str]:
    yield "| machine | rows from | fitted to | constants | predicted | off in the median |"
    yield "| --- | --- | --- | --- | ---: | ---: |"
    for generation, (machine, rows) in judged.items():
        constants = [f"achieved {machine.achieved:.3g}"]
        if "network" in generation.fits:
            speed = machine.link(Link.NETWORK).bytes_per_second
            constants.append(f"network {speed / 1e9:.3g} GB/s a GPU")
        to = "; ".join(_short(row) for row in generation.fitted)
        if drift := _drift(generation, machine):
            constants.append(drift)
        offs = [one for one in rows if not one.is_fitted]
        yield (
            f"| {generation.name} | {generation.source} | {to or 'nothing: as on A100-80'} "
            f"| {', '.join(constants)} | {len(offs)} | {_median(offs)} |"
        )


def _drift(generation: Generation, machine: Machine) -> str:
    """What its file says, if that is something else."""
    said = load_machine(generation.name)
    pairs = [(said.achieved, machine.achieved)]
    if "network" in generation.fits:
        pairs.append(tuple(one.link(Link.NETWORK).bytes_per_second for one in (said, machine)))
    if all(abs(a / b - 1) < _ROUNDED for a, b in pairs):
        return ""
    return f"**its file says {', '.join(f'{a:.3g}' for a, _ in pairs)}**"


def _short(row: Row) -> str:
    return f"{row.model} on {row.gpus}"


def _rows(judged: _Judged) -> Iterator[str]:
    yield "| machine | model | GPUs | tensor parallel | batch | published, s | predicted, s | off |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for _, rows in judged.values():
        for one in rows:
            row = one.row
            off = "fitted" if one.is_fitted else f"{100 * one.off:+.1f} %"
            off = f"**{off}**" if not one.is_fitted and abs(one.off) > _MISS else off
            yield (
                f"| {row.generation} | {row.model} | {row.gpus:,} | {row.tensor_parallel} "
                f"| {row.batch} x {row.accumulate} | {row.seconds:.4g} | {one.predicted_s:.4g} "
                f"| {off} |"
            )


def _misses(misses: Sequence[Judged]) -> Iterator[str]:
    reasons = DATA["reasons"]
    for one in misses:
        row = one.row
        found = [
            why["because"]
            for why in reasons
            if why["generation"] == row.generation
            and row.model in why.get("models", [row.model])
            and row.gpus in why.get("gpus", [row.gpus])
            and row.tensor_parallel in why.get("tensor_parallel", [row.tensor_parallel])
            and row.batch in why.get("batch", [row.batch])
        ]
        words = found[0] if found else "not explained"
        yield (
            f"- {row.generation}, {row.model} on {row.gpus:,} ({row.batch} x {row.accumulate}), "
            f"{100 * one.off:+.1f} %: {words}."
        )


def _collectives() -> Iterator[str]:
    """All-reduces within a node, against NCCL's model and what zerosim adds to it."""
    yield "| all-reduce | of | measured, µs | predicted, µs | off |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for one in DATA["collective"]:
        machine, layout = load_machine(one["machine"]), Layout(one["ranks"], 1)
        for mib, measured in one["measured_us"]:
            time = nccl_time(machine, Op.ALL_REDUCE, layout, int(mib * 2**20)).time_us
            yield (
                f"| {one['ranks']} x {one['words']} | {mib:g} MiB | {measured:,.0f} | {time:,.0f} "
                f"| {100 * (time / measured - 1):+.0f} % |"
            )
