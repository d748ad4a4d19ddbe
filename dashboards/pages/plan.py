"""Plan: what would it cost at scale? All that is shown is predicted.

What the page says is worked out here from its address, by the same functions as `zerosim plan`;
`components.plan` makes Dash components of it. A machine is one that comes with zerosim: no address
names a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import urlencode

from zerosim.base.config import STAGE_NAMES, STAGES, Offload
from zerosim.base.config.shapes import SHAPES, built_in
from zerosim.base.errors import ConfigError
from zerosim.base.language import Language, begun, spoken, term
from zerosim.base.quantities import format_amount, format_bytes, format_exact
from zerosim.base.tables import Table
from zerosim.dashboards.texts import SITE
from zerosim.predict.placement import known_machines
from zerosim.predict.plan import (
    Plan,
    Predicted,
    ask,
    make_plan,
    name_of,
    notes_on,
    parse_tokens,
    predict,
)
from zerosim.predict.plan.notes import basis_of
from zerosim.predict.plan.predict import tokens_that_hide
from zerosim.predict.plan.scaling import scaled
from zerosim.predict.plan.search import (
    Fixed,
    Variant,
    kind_of,
    narrowed,
    require_possible,
    variant_of,
)
from zerosim.predict.plan.tables import (
    grid_table,
    layouts_table,
    memories_table,
    memory_table,
    scaling_table,
    times_table,
)
from zerosim.predict.plan.written import (
    SIMULATED_STEPS,
    deepspeed_config,
    simulate_command,
    torch_calls,
)
from zerosim.schema.manifest import EACH
from zerosim.theory.layout import Layout
from zerosim.theory.saved import Recompute

PATH = "/plan"
TITLE = "pages.plan"
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
        plan = _plan(*_question(asked), fixed.recompute, spoken())
        require_possible(plan.question, fixed)
        found = narrowed(plan, fixed)
    except ConfigError as error:
        return View(_controls(here, asked, chosen), str(error), None)
    return View(_controls(here, asked, chosen), "", _shown(found, here))


def _question(asked: Mapping[str, str]) -> tuple[str, int, str, int]:
    """Model, GPUs, machine and tokens of an address."""
    if asked["machine"] not in known_machines():
        raise ConfigError(
            SITE(
                "plan.there_is_no_machine_expected_one",
                machine=repr(asked["machine"]),
                known_machines=", ".join(known_machines()),
            )
        )
    built_in(asked["model"])
    tokens = parse_tokens(asked["tokens"])
    if tokens > LARGEST_TOKENS:
        raise ConfigError(
            SITE(
                "plan.tokens_a_step_are_expected_at",
                tokens=f"{tokens:,}",
                LARGEST_TOKENS=f"{LARGEST_TOKENS:,}",
            )
        )
    return asked["model"], _number("gpus", asked["gpus"]), asked["machine"], tokens


def _number(name: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise ConfigError(SITE("plan.is_expected_a_whole_number", name=name, text=repr(text)))
    return int(text)


_VARIANTS = {
    Variant.PLAIN: "plan.plain",
    Variant.PLUS: "plan.plus",
    Variant.OFFLOAD: "plan.offload",
    Variant.INFINITY: "plan.infinity",
    Variant.HSDP: "plan.hsdp",
}
_RECOMPUTES = {
    Recompute.NONE: "plan.recompute_none",
    Recompute.OPERATORS: "plan.recompute_operators",
    Recompute.FULL: "plan.recompute_full",
}
_CHOICES: dict[str, Mapping[str, str]] = {
    "stage": {str(stage): STAGE_NAMES[stage] for stage in STAGES},
    "options": {variant.value: words for variant, words in _VARIANTS.items()},
    "recompute": {one.value: words for one, words in _RECOMPUTES.items()},
    "batch": {str(2**power): str(2**power) for power in range(5)},
    "tensor": {str(2**power): str(2**power) for power in range(4)},
    "pipeline": {str(2**power): str(2**power) for power in range(6)},
}


def _said(words: str) -> str:
    """What an option is called: words of ours have a key."""
    if words == FREE:
        return SITE("plan.any")
    return SITE(words) if words.startswith("plan.") else term(words)


def _fixed(chosen: Mapping[str, str]) -> Fixed:
    for name, value in chosen.items():
        known = _CHOICES[name]
        if value != FREE and value not in known and name not in ("batch", "tensor", "pipeline"):
            raise ConfigError(
                SITE(
                    "plan.is_expected_one_of", name=name, value=repr(value), known=", ".join(known)
                )
            )

    def number(name: str) -> int | None:
        if chosen[name] == FREE:
            return None
        value = _number(name, chosen[name])
        if value < 1:
            raise ConfigError(SITE("plan.is_expected_1_or_more", name=name, value=value))
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


@lru_cache(maxsize=16)
def _plan(
    model: str, gpus: int, machine: str, tokens: int, recompute: Recompute | None, _: Language
) -> Plan:
    """All that is tried, from which other choices take some; its words are in a language."""
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
            SITE(f"plan.label_{name}"),
            tuple(
                Option(_said(words), _address(here, **{name: value}), value == values[name])
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
    curves = [(name, scaled(one.beliefs, question, each.layout)) for name, each in beside]
    command, reason = simulate_command(question, layout)
    keys = deepspeed_config(layout)
    what = SITE(
        "plan.on_gpus_of",
        model=question.model,
        gpus=format_exact(question.gpus),
        machine=question.machine.name,
    )
    tensors, pipelines, grid = _grid(plan, here, one)
    fastest = plan.fastest(MOST_ROWS)
    return Shown(
        headline=_headline(one, what),
        remark=_remark(one),
        fits=one.fits,
        card_bytes=question.memory_bytes,
        chosen=chosen,
        memory=memory_table(one),
        memories=memories_table(beside, SITE("plan.predicted_peak_of_a_gpu")),
        times=times_table(
            [(_told(name, each), each) for name, each in beside],
            SITE("plan.predicted_time_of_a_step"),
        ),
        stages={
            said: _address_of(each.layout, here)
            for name, each in beside
            for said in (name, _told(name, each))
        },
        scaling=scaling_table(curves, SITE("plan.predicted_tokens_a_second_of_a")),
        sizes={
            (name, point.gpus): _address_of(point.predicted.layout, here)
            for name, points in curves
            for point in points
            if variant_of(point.predicted.layout) not in {Variant.PLUS, Variant.HSDP}
            or point.gpus > question.node
        },
        hiding=_hiding(one),
        fastest=tuple((each, _address_of(each.layout, here)) for each in fastest),
        table=layouts_table(fastest, SITE("plan.predicted_for", what=what)),
        tensors=tensors,
        pipelines=pipelines,
        grid=grid,
        command=command,
        no_command=reason,
        too_large=_too_large(layout),
        deepspeed="" if keys is None else json.dumps(keys, indent=2),
        calls=torch_calls(layout) or "",
        notes=(begun(basis_of(one)) + ".", *notes_on(one)),
    )


def _told(name: str, predicted: Predicted) -> str:
    """A layout as figures call it: by its name, and that it does not fit."""
    return name if predicted.fits else SITE("plan.does_not_fit_2", name=name)


def _too_large(layout: Layout) -> str:
    """Why a server does not do a layout dry; "" if it does."""
    ranks = 1 if layout.num_ranks > EACH and layout.config.asks_alike else layout.num_ranks
    blocks = layout.shape.layers * layout.micro_batches * SIMULATED_STEPS * ranks
    if blocks <= MOST_DONE:
        return ""
    return SITE(
        "plan.too_large",
        blocks=format_exact(blocks),
        steps=SIMULATED_STEPS,
        micro_steps=format_exact(layout.micro_batches),
        ranks=format_exact(ranks),
        most=format_exact(MOST_DONE),
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
        raise ConfigError(SITE("plan.it_is_not_simulated_here", why=problem))
    return tuple(found.shown.command.split()[1:])


def _headline(one: Predicted, what: str) -> str:
    if not one.fits:
        return SITE(
            "plan.nothing_fits_the_smallest_peak_is",
            what=what,
            bytes=format_bytes(one.footprint.bytes),
            memory_bytes=format_bytes(one.question.memory_bytes),
        )
    return SITE(
        "plan.a_step_of_with",
        what=what,
        step_s=seconds(one.step_s),
        value=name_of(one.layout).split(" · ")[0],
    )


def _remark(one: Predicted) -> str:
    layout, question = one.layout, one.question
    grid = f"{layout.cut.tensor} x {layout.pipeline} x {layout.data}"
    parts = [
        SITE("plan.tensor_x_pipeline_x_data", grid=grid),
        SITE("plan.micro_batch_of_them", batch=layout.batch, micro_batches=layout.micro_batches),
        SITE(
            "plan.peak_of",
            bytes=format_bytes(one.footprint.bytes),
            memory_bytes=format_bytes(question.memory_bytes),
        ),
    ]
    if one.fits:
        parts += [
            SITE("plan.tokens_a_day_2", tokens_per_day=format_amount(one.tokens_per_day)),
            SITE("plan.mfu_2", mfu=f"{one.mfu:.1%}"),
            SITE("plan.limited_by_2", limit=term(one.limit)),
        ]
    return SITE("plan.predicted_2", parts=" · ".join(parts))


def _hiding(one: Predicted) -> str:
    """Whether stage 3's gathers hide with as many tokens as a GPU has."""
    layout = one.layout
    if layout.data == 1 or layout.pipeline > 1:
        return ""
    sharded = replace(layout, config=replace(layout.config, stage=3))
    least, tokens = tokens_that_hide(one.prices, sharded), layout.computing.tokens
    if least is None:
        return ""
    verdict = SITE("plan.it_hides") if tokens >= least else SITE("plan.it_does_not_hide")
    return SITE(
        "plan.predicted_zero_3_s_gather_of",
        least=f"{least:,.0f}",
        tokens=f"{tokens:,}",
        verdict=verdict,
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
        each = replace(layout, config=plain, replicas=1)
        found.append((term(STAGE_NAMES[stage]), predict(one.beliefs, question, each)))
    if kind_of(layout) not in dict(found) and layout.pipeline == layout.cut.tensor == 1:
        found.append((kind_of(layout), one))
    return found


def _grid(
    plan: Plan, here: Mapping[str, str], one: Predicted
) -> tuple[tuple[int, ...], tuple[int, ...], dict[tuple[int, int], Grid]]:
    rows = list(grid_table(plan.tried, SITE("plan.predicted")))
    fastest = max((row["tokens_per_second_per_gpu"] or 0 for row in rows), default=0)
    found = {}
    for row in rows:
        at = (row["tensor"], row["pipeline"])
        rate = row["tokens_per_second_per_gpu"]
        found[at] = Grid(
            words=format_bytes(row["peak_bytes"]) if rate is None else format_amount(rate),
            detail=SITE("plan.does_not_fit")
            if rate is None
            else SITE("plan.mfu_2", mfu=f"{row['mfu']:.0%}"),
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
