"""Plan: what would it cost at scale? All that is shown is predicted.

What the page says is worked out here from its address, by the same functions as `zerosim plan`;
`components.plan` makes Dash components of it. A machine is one that comes with zerosim: no address
names a file. Imports the standard library, its siblings, zerosim's L0, theory, placement and plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import urlencode

from zerosim.config import STAGE_NAMES, STAGES, Offload
from zerosim.config.shapes import SHAPES
from zerosim.errors import ConfigError
from zerosim.manifest import EACH
from zerosim.placement import known_machines
from zerosim.plan import (
    Plan,
    Predicted,
    ask,
    make_plan,
    name_of,
    notes_on,
    parse_tokens,
    predict,
)
from zerosim.plan.predict import tokens_that_hide
from zerosim.plan.scaling import scaled
from zerosim.plan.search import Fixed, Variant, kind_of, narrowed, require_possible, variant_of
from zerosim.plan.tables import (
    grid_table,
    layouts_table,
    memories_table,
    memory_table,
    scaling_table,
    times_table,
)
from zerosim.plan.written import (
    SIMULATED_STEPS,
    deepspeed_config,
    simulate_command,
    torch_calls,
)
from zerosim.quantities import format_amount, format_bytes, format_exact
from zerosim.tables import Table
from zerosim.theory.layout import Layout
from zerosim.theory.saved import Recompute

PATH = "/plan"
TITLE = "Plan"
SCRIPT = "plan.js"
"""Of the assets, what the page needs beside Dash."""
FREE = "any"
LONGEST = 24
"""Letters of a value in an address."""
LARGEST_TOKENS = 10**10
MOST_ROWS = 8
"""Layouts that are listed."""
_MODELS = tuple(name.value for name in SHAPES)
_GPUS = ("8", "16", "64", "256", "512", "1024", "4096")
_TOKENS = ("512k", "1M", "4M", "16M")
UNFIT = ", does not fit"
"""After a layout's name."""
MOST_DONE = 1024
"""Blocks that a layout's dry run goes through on this server, in all micro-steps and ranks."""
_SEARCHED = Fixed(buckets=(None,), needed=True)
"""A bucket is a unit: other sizes change a step by less than a reader of the page sees."""
USUAL = {"model": "llama-3-8b", "machine": "dgx-h100", "gpus": "64", "tokens": "4M"}


@dataclass(frozen=True, slots=True)
class Option:
    """One value of a control, and where the page shows it."""

    words: str
    address: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Control:
    """What can be chosen.

    Attributes:
        given: what the address says where a value may be typed; None where it may not.
    """

    name: str
    label: str
    options: tuple[Option, ...]
    given: str | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """The fastest layouts by tensor x pipeline parallel ranks.

    Attributes:
        shade: 0 to 4, how fast beside the fastest; None where nothing fits.
    """

    words: str
    detail: str
    address: str
    shade: int | None
    is_chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """All that the page shows of a plan.

    Attributes:
        stages: by name, where the same layout in another stage is shown.
        sizes: by name and GPUs, where a point of the curves is; of none that no plan tries, as
            ZeRO++ within a node.
        no_command: why there is no command; too_large: why the server does not do it.
    """

    headline: str
    remark: str
    fits: bool
    card_bytes: int
    chosen: str
    memory: Table
    memories: Table
    times: Table
    stages: Mapping[str, str]
    scaling: Table
    sizes: Mapping[tuple[str, int], str]
    hiding: str
    fastest: tuple[tuple[Predicted, str], ...]
    table: Table
    tensors: tuple[int, ...]
    pipelines: tuple[int, ...]
    grid: Mapping[tuple[int, int], Grid]
    command: str
    no_command: str
    too_large: str
    deepspeed: str
    calls: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class View:
    """The page: its controls, and the plan or why there is none."""

    controls: tuple[Control, ...]
    problem: str
    shown: Shown | None


def view(query: Mapping[str, str]) -> View:
    """What the page shows at an address; what it says beside its own words is left out."""
    asked = {name: str(query.get(name, usual))[:LONGEST] for name, usual in USUAL.items()}
    chosen = {name: str(query.get(name, FREE))[:LONGEST] for name in _CHOICES}
    here = {**asked, **{name: value for name, value in chosen.items() if value != FREE}}
    try:
        fixed = _fixed(chosen)
        plan = _plan(*_question(asked), fixed.recompute)
        require_possible(plan.question, fixed)
        found = narrowed(plan, fixed)
    except ConfigError as error:
        return View(_controls(here, asked, chosen), str(error), None)
    return View(_controls(here, asked, chosen), "", _shown(found, here))


def _question(asked: Mapping[str, str]) -> tuple[str, int, str, int]:
    """Model, GPUs, machine and tokens of an address."""
    if asked["machine"] not in known_machines():
        raise ConfigError(
            f"there is no machine {asked['machine']!r}: expected one of "
            f"{', '.join(known_machines())}"
        )
    tokens = parse_tokens(asked["tokens"])
    if tokens > LARGEST_TOKENS:
        raise ConfigError(f"tokens a step are {tokens:,}: expected at most {LARGEST_TOKENS:,}")
    return asked["model"], _number("gpus", asked["gpus"]), asked["machine"], tokens


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise ConfigError(f"{name} is {text!r}: expected a whole number")
    return int(text)


_VARIANTS = {
    Variant.PLAIN: "plain",
    Variant.PLUS: "ZeRO++",
    Variant.OFFLOAD: "optimizer on the host",
    Variant.INFINITY: "all on the host",
}
_RECOMPUTES = {Recompute.NONE: "nothing", Recompute.FULL: "blocks"}
_CHOICES: dict[str, Mapping[str, str]] = {
    "stage": {str(stage): STAGE_NAMES[stage] for stage in STAGES},
    "options": {variant.value: words for variant, words in _VARIANTS.items()},
    "recompute": {one.value: words for one, words in _RECOMPUTES.items()},
    "batch": {str(2**power): str(2**power) for power in range(5)},
    "tensor": {str(2**power): str(2**power) for power in range(4)},
    "pipeline": {str(2**power): str(2**power) for power in range(6)},
}
_LABELS = {
    "model": "Model",
    "machine": "Machine",
    "gpus": "GPUs",
    "tokens": "Tokens a step",
    "stage": "Stage",
    "options": "Built on it",
    "recompute": "Computed again",
    "batch": "Micro-batch",
    "tensor": "Tensor parallel",
    "pipeline": "Pipeline parallel",
}


def _fixed(chosen: Mapping[str, str]) -> Fixed:
    for name, value in chosen.items():
        known = _CHOICES[name]
        if value != FREE and value not in known and name not in ("batch", "tensor", "pipeline"):
            raise ConfigError(f"{name} is {value!r}: expected one of {', '.join(known)}")

    def number(name: str) -> int | None:
        if chosen[name] == FREE:
            return None
        value = _number(name, chosen[name])
        if value < 1:
            raise ConfigError(f"{name} is {value}: expected 1 or more")
        return value

    free = {name for name, value in chosen.items() if value == FREE}
    return Fixed(
        stages=STAGES if "stage" in free else (int(chosen["stage"]),),
        tensor=number("tensor"),
        pipeline=number("pipeline"),
        batch=number("batch"),
        recompute=None if "recompute" in free else Recompute(chosen["recompute"]),
        variant=None if "options" in free else Variant(chosen["options"]),
    )


@lru_cache(maxsize=8)
def _plan(model: str, gpus: int, machine: str, tokens: int, recompute: Recompute | None) -> Plan:
    """All that is tried, from which other choices take some."""
    question = ask(model, gpus, machine, tokens)
    return make_plan(question, replace(_SEARCHED, recompute=recompute))


def _address(here: Mapping[str, str], **changed: str) -> str:
    values = {name: value for name, value in {**here, **changed}.items() if value != FREE}
    return f"{PATH}?{urlencode(values)}"


def _controls(
    here: Mapping[str, str], asked: Mapping[str, str], chosen: Mapping[str, str]
) -> tuple[Control, ...]:
    known: dict[str, Mapping[str, str]] = {
        "model": {name: name for name in _MODELS},
        "machine": {name: name for name in known_machines()},
        "gpus": {count: format_exact(int(count)) for count in _GPUS},
        "tokens": {count: count for count in _TOKENS},
        **{name: {FREE: FREE, **values} for name, values in _CHOICES.items()},
    }
    values = {**asked, **chosen}
    return tuple(
        Control(
            name,
            _LABELS[name],
            tuple(
                Option(words, _address(here, **{name: value}), value == values[name])
                for value, words in options.items()
            ),
            values[name] if name in ("gpus", "tokens") else None,
        )
        for name, options in known.items()
    )


# ------------------------------------------------------------------- the plan


def _shown(plan: Plan, here: Mapping[str, str]) -> Shown:
    one, question = plan.tried[0], plan.question
    layout = one.layout
    chosen = kind_of(layout)
    beside = _siblings(one)
    curves = [(name, scaled(one.prices, question, each.layout)) for name, each in beside]
    command, reason = simulate_command(question, layout)
    keys = deepspeed_config(layout)
    what = f"{question.model} on {format_exact(question.gpus)} GPUs of {question.machine.name}"
    tensors, pipelines, grid = _grid(plan, here, one)
    fastest = plan.fastest(MOST_ROWS)
    return Shown(
        headline=_headline(one, what),
        remark=_remark(one),
        fits=one.fits,
        card_bytes=question.memory_bytes,
        chosen=chosen,
        memory=memory_table(one),
        memories=memories_table(beside, "Predicted peak of a GPU"),
        times=times_table(
            [(name if each.fits else f"{name}{UNFIT}", each) for name, each in beside],
            "Predicted time of a step",
        ),
        stages={name: _address_of(each.layout, here) for name, each in beside},
        scaling=scaling_table(curves, "Predicted tokens a second of a GPU"),
        sizes={
            (name, point.gpus): _address_of(point.predicted.layout, here)
            for name, points in curves
            for point in points
            if variant_of(point.predicted.layout) is not Variant.PLUS or point.gpus > question.node
        },
        hiding=_hiding(one),
        fastest=tuple((each, _address_of(each.layout, here)) for each in fastest),
        table=layouts_table(fastest, f"Predicted for {what}"),
        tensors=tensors,
        pipelines=pipelines,
        grid=grid,
        command=command,
        no_command=reason,
        too_large=_too_large(layout),
        deepspeed="" if keys is None else json.dumps(keys, indent=2),
        calls=torch_calls(layout) or "",
        notes=notes_on(one),
    )


def _too_large(layout: Layout) -> str:
    """Why a server does not do a layout dry; "" if it does."""
    ranks = 1 if layout.num_ranks > EACH and layout.config.asks_alike else layout.num_ranks
    blocks = layout.shape.layers * layout.micro_batches * SIMULATED_STEPS * ranks
    if blocks <= MOST_DONE:
        return ""
    return (
        f"{format_exact(blocks)} blocks to go through, in {SIMULATED_STEPS} steps of "
        f"{format_exact(layout.micro_batches)} micro-steps on {format_exact(ranks)} unlike ranks: "
        f"this page simulates at most {format_exact(MOST_DONE)}"
    )


def command_at(query: Mapping[str, str]) -> tuple[str, ...]:
    """The words of the command that simulates the layout at an address, without `zerosim`.

    Raises:
        ConfigError: there is no plan, no such command, or it is too large for a server.
    """
    found = view(query)
    if found.shown is None:
        raise ConfigError(found.problem)
    if problem := found.shown.no_command or found.shown.too_large:
        raise ConfigError(f"it is not simulated here: {problem}")
    return tuple(found.shown.command.split()[1:])


def _headline(one: Predicted, what: str) -> str:
    if not one.fits:
        return (
            f"{what}: nothing fits, the smallest peak is predicted to be "
            f"{format_bytes(one.footprint.bytes)} of {format_bytes(one.question.memory_bytes)}"
        )
    name = name_of(one.layout).split(" · ")[0]
    return f"{what}: a step of {seconds(one.step_s)} is predicted with {name}"


def _remark(one: Predicted) -> str:
    layout, question = one.layout, one.question
    grid = f"{layout.cut.tensor} x {layout.pipeline} x {layout.data}"
    parts = [
        f"tensor x pipeline x data {grid}",
        f"micro-batch {layout.batch}, {layout.micro_batches} of them",
        f"peak {format_bytes(one.footprint.bytes)} of {format_bytes(question.memory_bytes)}",
    ]
    if one.fits:
        parts += [
            f"{format_amount(one.tokens_per_day)} tokens a day",
            f"MFU {one.mfu:.1%}",
            f"limited by {one.limit}",
        ]
    return f"Predicted: {' · '.join(parts)}."


def _hiding(one: Predicted) -> str:
    """Whether stage 3's gathers hide with as many tokens as a GPU has."""
    layout = one.layout
    if layout.data == 1 or layout.pipeline > 1:
        return ""
    sharded = replace(layout, config=replace(layout.config, stage=3))
    least, tokens = tokens_that_hide(one.prices, sharded), layout.computing.tokens
    if least is None:
        return ""
    verdict = "it hides" if tokens >= least else "it does not hide, and the step waits"
    return (
        f"Predicted: ZeRO-3's gather of a block hides behind {least:,.0f} tokens of a GPU (C/W: "
        f"what it computes over what it receives). A micro-batch has {tokens:,}: {verdict}."
    )


def seconds(value: float) -> str:
    """Of a step: "6.33 s", "51.2 ms"."""
    return f"{value:,.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"


def _siblings(one: Predicted) -> list[tuple[str, Predicted]]:
    """The same layout in every stage; with what is built on it, that as well."""
    layout, question = one.layout, one.question
    found = []
    for stage in STAGES:
        if layout.pipeline > 1 and stage > 1:
            continue
        plain = replace(
            layout.config,
            stage=stage,
            offload_optimizer=Offload.NONE,
            offload_param=Offload.NONE,
            quantize_weights=False,
            quantize_gradients=False,
            secondary_partition=1,
        )
        each = replace(layout, config=plain)
        found.append((STAGE_NAMES[stage], predict(one.prices, question, each)))
    if kind_of(layout) not in dict(found) and layout.pipeline == layout.cut.tensor == 1:
        found.append((kind_of(layout), one))
    return found


def _grid(
    plan: Plan, here: Mapping[str, str], one: Predicted
) -> tuple[tuple[int, ...], tuple[int, ...], dict[tuple[int, int], Grid]]:
    rows = list(grid_table(plan.tried, "Predicted"))
    fastest = max((row["tokens_per_second_per_gpu"] or 0 for row in rows), default=0)
    found = {}
    for row in rows:
        at = (row["tensor"], row["pipeline"])
        rate = row["tokens_per_second_per_gpu"]
        found[at] = Grid(
            words=format_bytes(row["peak_bytes"]) if rate is None else format_amount(rate),
            detail="does not fit" if rate is None else f"MFU {row['mfu']:.0%}",
            address=_address(here, tensor=str(at[0]), pipeline=str(at[1])),
            shade=None if rate is None else min(4, int(5 * rate / fastest)),
            is_chosen=at == (one.layout.cut.tensor, one.layout.pipeline),
        )
    return (
        tuple(sorted({tensor for tensor, _ in found})),
        tuple(sorted({pipeline for _, pipeline in found})),
        found,
    )


def _address_of(layout: Layout, here: Mapping[str, str]) -> str:
    """Where the page shows a layout and no other.

    Where no ranks are data parallel nothing is divided: a plan has that as stage 0, and plain.
    """
    divides = layout.data > 1
    return _address(
        here,
        gpus=str(layout.num_ranks),
        stage=str(layout.config.stage if divides else 0),
        options=(variant_of(layout) if divides else Variant.PLAIN).value,
        recompute=layout.recompute.value,
        batch=str(layout.batch),
        tensor=str(layout.cut.tensor),
        pipeline=str(layout.pipeline),
    )


def typed(query: Mapping[str, str], gpus: str, tokens: str) -> str:
    """The address that asks for what was typed."""
    here = {name: value for name, value in query.items() if name in {*USUAL, *_CHOICES}}
    return _address({**USUAL, **here}, gpus=gpus[:LONGEST], tokens=tokens[:LONGEST])
