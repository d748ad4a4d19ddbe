"""What the page Plan says of a plan: its fastest layout, and beside it what else was tried."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from zerosim.base.config import STAGE_NAMES, STAGES, Offload
from zerosim.base.language import begun, term
from zerosim.base.quantities import format_amount, format_bytes, format_exact
from zerosim.base.tables import Table
from zerosim.dashboards.texts import SITE
from zerosim.predict.plan import LayoutSearch, PredictedLayout, name_of, notes_on, predict
from zerosim.predict.plan.notes import basis_of
from zerosim.predict.plan.predict import tokens_that_hide
from zerosim.predict.plan.search import Variant, kind_of, variant_of
from zerosim.predict.plan.strong_scaling import scaled
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

Address = Callable[..., str]
MOST_ROWS = 8
"""Layouts that are listed."""
MOST_DONE = 1024
"""Blocks that a layout's dry run goes through on this server, in all micro-steps and ranks."""


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
    fastest: tuple[tuple[PredictedLayout, str], ...]
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


def shown_of(plan: LayoutSearch, address: Address) -> Shown:
    """What the page shows of a plan; of its first layout, with what else was tried beside it.

    Args:
        address: of the page with some choices changed.
    """
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
    tensors, pipelines, grid = _grid(plan, address, one)
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
            said: _address_of(each.layout, address)
            for name, each in beside
            for said in (name, _told(name, each))
        },
        scaling=scaling_table(curves, SITE("plan.predicted_tokens_a_second_of_a")),
        sizes={
            (name, point.gpus): _address_of(point.predicted.layout, address)
            for name, points in curves
            for point in points
            if variant_of(point.predicted.layout) not in {Variant.PLUS, Variant.HSDP}
            or point.gpus > question.node
        },
        hiding=_hiding(one),
        fastest=tuple((each, _address_of(each.layout, address)) for each in fastest),
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


def _told(name: str, predicted: PredictedLayout) -> str:
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


def _headline(one: PredictedLayout, what: str) -> str:
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


def _remark(one: PredictedLayout) -> str:
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


def _hiding(one: PredictedLayout) -> str:
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


def _siblings(one: PredictedLayout) -> list[tuple[str, PredictedLayout]]:
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
    plan: LayoutSearch, address: Address, one: PredictedLayout
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
            address=address(tensor=str(at[0]), pipeline=str(at[1])),
            shade=None if rate is None else min(4, int(5 * rate / fastest)),
            is_chosen=at == (one.layout.cut.tensor, one.layout.pipeline),
        )
    return (
        tuple(sorted({tensor for tensor, _ in found})),
        tuple(sorted({pipeline for _, pipeline in found})),
        found,
    )


def _address_of(layout: Layout, address: Address) -> str:
    """Where the page shows a layout and no other.

    Where no ranks are data parallel nothing is divided: a plan has that as stage 0, and plain.
    """
    divides = layout.data > 1
    return address(
        gpus=str(layout.num_ranks),
        stage=str(layout.config.stage if divides else 0),
        options=(variant_of(layout) if divides else Variant.PLAIN).value,
        recompute=layout.recompute.value,
        batch=str(layout.batch),
        tensor=str(layout.cut.tensor),
        pipeline=str(layout.pipeline),
    )
