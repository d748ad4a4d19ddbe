"""How far predictions are from steps that others measured and published.

Each published run is predicted as `zerosim plan` predicts it, in closed form, with the constants
of its generation of software on its hardware, one of `zerosim/predict/placement/machines`. Those of
the software are fitted here to the rows of `published.toml` that it calls `fitted`, and to no
other; where a file holds another value than the fit, the table says so.

    python -m tests.bench --only published
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, log
from pathlib import Path
from statistics import median
from typing import Any

from zerosim.base.config import EngineConfig
from zerosim.base.config.shapes import GPTConfig, LlamaConfig, Transformer, shape_of
from zerosim.base.tiers import Link
from zerosim.predict.placement import load_machine
from zerosim.predict.placement.machine import Machine
from zerosim.predict.placement.nccl import RanksOnNodes, nccl_time
from zerosim.predict.plan.prices import Prices
from zerosim.predict.plan.schedule import step_times
from zerosim.schema.events import Op
from zerosim.theory.layout import LAST, Layout, native
from zerosim.theory.saved import KeptActivations, Recompute
from zerosim.theory.transformer import BLOCK, LayerCut

DATA = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))
HEADING = "## Published runs"
_MISS, _GOAL = 0.15, 0.1
_ROUNDED = 0.01
"""What the constants in files are rounded by."""
_FIRST, _CLOSE = 0.2, 0.001
"""How far a constant is moved at first, and at last."""


class RowKind(StrEnum):
    """How a run divided its training; each row is of one kind."""

    SHARDED = "FSDP, ZeRO, DDP"
    MEGATRON = "Megatron's tensor and pipeline parallelism"
    SHARDED_TENSOR = "FSDP with tensor parallelism, with or without a pipeline"
    CONTEXT = "context parallelism"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One published run: how it was made, and how long its step took.

    Attributes:
        tensor, pipeline, context: parallel ranks.
        batch, accumulate: sequences of a micro-batch, micro-steps.
        again: what backward computes again (`Recompute`).
        sequence: tokens, where it is not the model's own.
        has_scores: attention writes its scores, and there is dropout.
    """

    generation: str
    unit: str
    model: str
    gpus: int
    published: float
    batch: int
    id: str = ""
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    chunks: int = 1
    accumulate: int = 1
    stage: int = 0
    again: str = "none"
    sequence: int | None = None
    sequence_parallel: bool = False
    overlap: bool = True
    float8: bool = False
    has_scores: bool = False

    @property
    def kind(self) -> RowKind:
        """How it was divided."""
        if "megatron" in load_machine(self.generation).software:
            return RowKind.MEGATRON
        if self.context > 1:
            return RowKind.CONTEXT
        is_divided = self.tensor > 1 or self.pipeline > 1
        return RowKind.SHARDED_TENSOR if is_divided else RowKind.SHARDED

    @property
    def shape(self) -> Transformer:
        """Of its model."""
        found = DATA["models"].get(self.model, {}).get("shape")
        if found is None:
            return shape_of(self.model)
        if "hidden" in found:
            return LlamaConfig(**found)
        given = {**found, "context": found["context_length"]}
        del given["context_length"]
        return GPTConfig(**given, tied=True)

    @property
    def length(self) -> int:
        """Tokens of a sequence."""
        return self.sequence or self.shape.context

    @property
    def layout(self) -> Layout:
        """How it was divided."""
        recompute = Recompute(self.again)
        return Layout(
            shape=self.shape,
            config=native(
                EngineConfig(
                    stage=self.stage,
                    accumulate=self.accumulate,
                    overlap=self.overlap,
                    checkpoint_activations=recompute is Recompute.FULL,
                )
            ),
            data=self.gpus // (self.tensor * self.pipeline),
            cut=LayerCut(self.tensor, sequence=self.sequence_parallel, context=self.context),
            pipeline=self.pipeline,
            chunks=self.chunks,
            batch=self.batch,
            sequence=self.length,
            ranks_per_node=min(self.gpus, load_machine(self.generation).ranks_per_node or 8),
            keeping=KeptActivations(recompute, self.has_scores, self.has_scores),
            float8=self.float8,
        )

    @property
    def seconds(self) -> float:
        """A step, as published."""
        tokens = self.layout.tokens
        match self.unit:
            case "s":
                return self.published
            case "ms":
                return self.published / 1e3
            case "tokens/s":
                return tokens / self.published
            case "tokens/s/GPU":
                return tokens / self.published / self.gpus
        flops = 4 / 3 if self.unit == "TFLOP/s/GPU" else 1
        return flops * self._model_flops() / (self.gpus * self.published * 1e12)

    def _model_flops(self) -> float:
        """Eq. 7 of Korthikanti et al. 2022; eq. 3 of Narayanan et al. 2021 counts forward twice.

        The head is not computed again: of it a quarter less counts there.
        """
        shape, length = self.shape, self.length
        layers, width = shape.layers, shape.width
        passes = 4 if self.unit == "TFLOP/s/GPU" else 3
        rest = 1 + length / (6 * width) + shape.vocabulary / (4 * passes * layers * width)
        return 72 * self.layout.sequences * length * layers * width**2 * rest


@dataclass(frozen=True)
class Layer:
    """One block by itself: forward and backward of a micro-batch, ms."""

    row: Row
    forward_ms: float
    backward_ms: float

    def offs(self, machine: Machine) -> tuple[float, float]:
        """Logarithms of how far both are off."""
        units = Prices(machine).units(self.row.layout, LAST)
        unit = next(one for one in units if one.name == BLOCK)
        forward = unit.forward + sum(one.ns for one in unit.sums_forward)
        backward = unit.backward + sum(one.ns for one in unit.sums_backward)
        return log(forward / 1e6 / self.forward_ms), log(backward / 1e6 / self.backward_ms)


@dataclass(frozen=True)
class Generation:
    """Software on hardware: its rows."""

    name: str
    source: str
    fitted: tuple[Row, ...]
    predicted: tuple[Row, ...]
    layers: tuple[Layer, ...] = ()

    @property
    def software(self) -> str:
        """Whose constants its machine has."""
        return load_machine(self.name).software


def generations() -> tuple[Generation, ...]:
    """All of `published.toml`."""
    return tuple(map(_generation, DATA["generation"]))


def _generation(one: dict[str, Any]) -> Generation:
    name, unit, scores = one["name"], one["unit"], one.get("has_scores", False)

    def row(values: dict[str, Any]) -> Row:
        return Row(generation=name, unit=unit, has_scores=scores, **values)

    layers = tuple(
        Layer(row({**values, "published": 1}), *times) for values, *times in one.get("layers", [])
    )
    fitted, predicted = (tuple(map(row, one[part])) for part in ("fitted", "predicted"))
    return Generation(name, one["source"], fitted, predicted, layers)


def predict(row: Row, machine: Machine) -> float:
    """Seconds of a step, as a plan says it."""
    return sum(step_times(Prices(machine), row.layout).values()) / 1e9


Constants = dict[str, float]


def fit(software: str, fits: Sequence[str]) -> Constants:
    """The constants with which the fitted rows of a software are off least, by squares of logs.

    Blocks by themselves weigh together as much as one step. One constant after the other is moved
    up and down by less and less, until no move is better.
    """
    mine = [one for one in generations() if one.software == software]
    start = {name: _of(load_machine(mine[0].name), name) for name in fits}

    def off(values: Constants) -> float:
        total = 0.0
        for one in mine:
            machine = _with(load_machine(one.name), values)
            total += sum(log(predict(row, machine) / row.seconds) ** 2 for row in one.fitted)
            blocks = [off for layer in one.layers for off in layer.offs(machine)]
            total += sum(each**2 for each in blocks) / max(1, len(blocks))
        return total

    found, least = start, off(start)
    step = _FIRST
    while step > _CLOSE:
        better = False
        for name in fits:
            for factor in (1 + step, 1 / (1 + step)):
                tried = {**found, name: min(found[name] * factor, _MOST.get(name, inf))}
                now = off(tried)
                if now < least:
                    found, least, better = tried, now, True
        step = step if better else step / 2
    return found


SOFTWARE_CONSTANTS: dict[str, list[str]] = DATA["fits"]
"""What is fitted of each software."""
_MOST = {"hidden_forward": 1.0, "hidden_backward": 1.0, "achieved": 1.0}


def _of(machine: Machine, name: str) -> float:
    if name == "network":
        return machine.link(Link.NETWORK).bytes_per_second
    return 1.0 if name == "computing" else float(getattr(machine, name))


def _with(machine: Machine, values: Constants) -> Machine:
    """`computing`: what is reached of products and of memory alike, times that."""
    given = dict(values)
    if "network" in given:
        speed = replace(machine.link(Link.NETWORK), bytes_per_second=given.pop("network"))
        machine = replace(machine, links={**machine.links, Link.NETWORK: speed})
    if "computing" in given:
        times = given.pop("computing")
        memory = machine.memory_achieved
        given = {"achieved": times * machine.achieved, **given}
        given["memory_achieved"] = times * (machine.achieved if memory is None else memory)
    return replace(machine, **given)


@dataclass(frozen=True)
class Fitted:
    """A software with what was fitted."""

    name: str
    constants: Constants

    @property
    def drifts(self) -> bool:
        """Whether its file says something else."""
        name = next(one.name for one in generations() if one.software == self.name)
        said = load_machine(name)
        return any(
            abs(_of(said, one) / value - 1) > _ROUNDED for one, value in self.constants.items()
        )


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


def judge(generation: Generation, constants: Constants) -> list[Judged]:
    """Predict all of its rows."""
    machine = _with(load_machine(generation.name), constants)
    return [
        Judged(row, row in generation.fitted, predict(row, machine))
        for row in (*generation.fitted, *generation.predicted)
    ]


_Judged = Mapping[Generation, tuple[Fitted, list[Judged]]]


def judged() -> _Judged:
    """All rows, with constants that are fitted anew."""
    fitted = {name: Fitted(name, fit(name, fits)) for name, fits in SOFTWARE_CONSTANTS.items()}
    return {
        one: (fitted[one.software], judge(one, fitted[one.software].constants))
        for one in generations()
    }


def table() -> list[str]:
    """The part of docs/simulate.md."""
    return report(judged())


def report(judged: _Judged) -> list[str]:
    """The part, of what was judged."""
    offs = [one for _, rows in judged.values() for one in rows if not one.is_fitted]
    misses = [one for one in offs if abs(one.off) > _MISS]
    within = sum(abs(one.off) <= _GOAL for one in offs)
    return [
        HEADING,
        "",
        f"`python -m tests.bench --only published` predicts {len(offs)} published steps",
        "to which no constant was fitted, in closed form like a plan. The median error is",
        f"**{_median(offs)}**. {within} errors are at most {100 * _GOAL:.0f} %, and",
        f"{len(misses)} are more than {100 * _MISS:.0f} %.",
        "",
        *kinds_table(offs),
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


def kinds_table(offs: Sequence[Judged]) -> Iterator[str]:
    """How far off runs of each kind are, of those that nothing was fitted to."""
    yield "| kind of parallelism | predicted steps | median error | largest error |"
    yield "| --- | ---: | ---: | ---: |"
    for kind in RowKind:
        own = [one for one in offs if one.row.kind is kind]
        most = max(abs(one.off) for one in own)
        yield f"| {kind} | {len(own)} | {_median(own)} | {100 * most:.1f} % |"


def _constants(judged: _Judged) -> Iterator[str]:
    yield (
        "| machine | source of the rows | fitted to | constants | predicted steps "
        "| median error | largest error |"
    )
    yield "| --- | --- | --- | --- | ---: | ---: | ---: |"
    for generation, (fitted, rows) in judged.items():
        constants = [f"{name} {value:.3g}" for name, value in fitted.constants.items()]
        if fitted.drifts:
            constants.append("**its file has other values**")
        to = "; ".join(_short(row) for row in generation.fitted)
        offs = [one for one in rows if not one.is_fitted]
        most = f"{100 * max(abs(one.off) for one in offs):.1f} %" if offs else ""
        yield (
            f"| {generation.name} | {generation.source} | {to or 'none of these rows'} "
            f"| {fitted.name}: {', '.join(constants)} | {len(offs)} "
            f"| {_median(offs) if offs else ''} | {most} |"
        )


def _short(row: Row) -> str:
    return f"{row.model} on {row.gpus}"


def _rows(judged: _Judged) -> Iterator[str]:
    yield (
        "| machine | model | GPUs | T x p | batch | recomputed "
        "| published, s | predicted, s | error |"
    )
    yield "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: | ---: |"
    for _, rows in judged.values():
        for one in rows:
            row = one.row
            off = "fitted" if one.is_fitted else f"{100 * one.off:+.1f} %"
            off = f"**{off}**" if not one.is_fitted and abs(one.off) > _MISS else off
            name = f"{row.id} " if row.id else ""
            words = [row.again, *(["float8"] if row.float8 else [])]
            if row.context > 1:
                words.append(f"{row.context} ranks per sequence of {row.length:,} tokens")
            yield (
                f"| {row.generation} | {name}{row.model} | {row.gpus:,} "
                f"| {row.tensor} x {row.pipeline} | {row.batch} x {row.accumulate} "
                f"| {', '.join(words)} | {row.seconds:.4g} | {one.predicted_s:.4g} | {off} |"
            )


def _misses(misses: Sequence[Judged]) -> Iterator[str]:
    for one in misses:
        row = one.row
        name = f"{row.id} " if row.id else ""
        yield (
            f"- {row.generation}, {name}{row.model} on {row.gpus:,} ({row.tensor} x "
            f"{row.pipeline}, {row.batch} x {row.accumulate}), {100 * one.off:+.1f} %: "
            f"{reason_of(row) or 'not explained'}."
        )


def reason_of(row: Row) -> str:
    """What may explain that a row is off by much; "" if nothing is said of it."""
    keys = ("generation", "model", "gpus", "tensor", "pipeline", "context", "batch")
    for why in DATA["reasons"]:
        if all(getattr(row, key) in why.get(key, [getattr(row, key)]) for key in keys):
            return str(why["because"])
    return ""


def _collectives() -> Iterator[str]:
    """All-reduces within a node, against NCCL's model and what zerosim adds to it."""
    yield "| all-reduce on | size | measured, µs | predicted, µs | error |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for one in DATA["collective"]:
        machine, layout = load_machine(one["machine"]), RanksOnNodes(one["ranks"], 1)
        for mib, measured in one["measured_us"]:
            time = nccl_time(machine, Op.ALL_REDUCE, layout, int(mib * 2**20)).time_us
            yield (
                f"| {one['ranks']} x {one['words']} | {mib:g} MiB | {measured:,.0f} | {time:,.0f} "
                f"| {100 * (time / measured - 1):+.0f} % |"
            )
