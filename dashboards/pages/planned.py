"""The contents of the page Plan: the fastest layout, and the others that were tried."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from zerosim.base.config import STAGE_NAMES, STAGES, Offload
from zerosim.base.language import begun, term
from zerosim.base.quantities import format_amount, format_bytes, format_exact
from zerosim.base.tables import Table
from zerosim.dashboards.pages.plan_choices import PlanAddress, code_of
from zerosim.dashboards.pages.plan_compared import ComparedLayouts, compared_of
from zerosim.dashboards.pages.plan_said import (
    Fact,
    dry_of,
    facts_of,
    headline_of,
    hiding_of,
    own_model_of,
    remark_of,
)
from zerosim.dashboards.texts import SITE
from zerosim.predict.plan import LayoutSearch, PredictedLayout, notes_on, predict
from zerosim.predict.plan.layout_names import kind_of, words_of
from zerosim.predict.plan.layouts import Variant, variant_of
from zerosim.predict.plan.notes import basis_of
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

MOST_ROWS, MOST_BEYOND = 8, 3
"""Maximum number of listed layouts."""
MOST_DONE = 1024
"""Maximum number of blocks in a dry run on this server, over all micro-steps and ranks."""


@dataclass(frozen=True, slots=True)
class Leading:
    """The addresses that show a listed layout, and that compare it with the shown one."""

    alone: str
    beside: str


@dataclass(frozen=True, slots=True)
class Grid:
    """The fastest layouts by tensor x pipeline parallel ranks.

    Attributes:
        shade: 0 to 4, its speed relative to the fastest; None if nothing fits.
    """

    words: str
    detail: str
    address: str
    shade: int | None
    is_chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """All contents of the page for a plan.

    Attributes:
        stages: by name, the address of the same layout in another stage.
        sizes: by name and GPUs, the address of a point of the curves; missing for layouts that no
            plan tries, such as ZeRO++ within a node.
        model: a description of the user's own configuration; "" for a built-in model.
        num_beyond: number of layouts at the end of `fastest` that are faster but outside the
            measured range.
        kinds: the fastest layout of each kind by name, and the address that compares it with this
            one.
        compared: this layout and another one, if requested.
        dry: the difference of the peak of its dry run; "" if there is none.
        no_command: why there is no command; too_large: why the server does not simulate it.
    """

    headline: str
    remark: str
    facts: tuple[Fact, ...]
    basis: str
    model: str
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
    fastest: tuple[tuple[PredictedLayout, Leading], ...]
    num_beyond: int
    kinds: tuple[tuple[str, str], ...]
    compared: ComparedLayouts | None
    table: Table
    tensors: tuple[int, ...]
    pipelines: tuple[int, ...]
    grid: Mapping[tuple[int, int], Grid]
    command: str
    no_command: str
    too_large: str
    dry: str
    deepspeed: str
    calls: str
    notes: tuple[str, ...]


def shown_of(
    plan: LayoutSearch, asked: PlanAddress, beside: LayoutSearch | None, whole: LayoutSearch
) -> Shown:
    """The contents of the page for a plan: its first layout, with the others that were tried.

    Args:
        asked: the question of the page's address.
        beside: the plan whose first layout is the other one in the comparison.
        whole: the plan before any choice except that of recomputation.
    """
    one, question = plan.tried[0], plan.question
    other = None if beside is None else beside.tried[0]
    layout = one.layout
    chosen = term(kind_of(layout))
    siblings = _siblings(one)
    curves = [(name, scaled(one.beliefs, question, each.layout)) for name, each in siblings]
    drawn = siblings if other is None else _drawn(one, other)
    command, reason = simulate_command(question, layout)
    keys = deepspeed_config(layout)
    what = SITE(
        "plan.on_gpus_of",
        model=question.model,
        gpus=format_exact(question.gpus),
        machine=question.machine.name,
    )
    tensors, pipelines, grid = _grid(plan, asked, one)
    beyond = plan.beyond(MOST_BEYOND)
    fastest = (*plan.fastest(MOST_ROWS), *beyond)
    return Shown(
        headline=headline_of(one, what),
        remark=remark_of(one),
        facts=facts_of(one),
        basis=SITE("plan.sentence", words=begun(basis_of(one))),
        model=own_model_of(one) if asked.own else "",
        fits=one.fits,
        card_bytes=question.memory_bytes,
        chosen=chosen,
        memory=memory_table(one),
        memories=memories_table(drawn, SITE("plan.predicted_peak_of_a_gpu")),
        times=times_table(
            [(_told(name, each), each) for name, each in drawn],
            SITE("plan.predicted_time_of_a_step"),
        ),
        stages={
            said: _address_of(each.layout, asked)
            for name, each in (*siblings, *drawn)
            for said in (name, _told(name, each))
        },
        scaling=scaling_table(curves, SITE("plan.predicted_tokens_a_second_of_a")),
        sizes={
            (name, point.gpus): _address_of(point.predicted.layout, asked)
            for name, points in curves
            for point in points
            if variant_of(point.predicted.layout) not in {Variant.PLUS, Variant.HSDP}
            or point.gpus > question.node
        },
        hiding=hiding_of(one),
        fastest=tuple((each, _leading(each.layout, asked)) for each in fastest),
        num_beyond=len(beyond),
        kinds=tuple(
            (_told(term(kind), each), asked.address(beside=code_of(_choice_of(each.layout))))
            for kind, each in whole.kinds().items()
        ),
        compared=None if other is None else _compared(one, other, asked),
        table=layouts_table(fastest, SITE("plan.predicted_for", what=what)),
        tensors=tensors,
        pipelines=pipelines,
        grid=grid,
        command=command,
        no_command=reason,
        too_large=_too_large(layout),
        dry=dry_of(one) if command else "",
        deepspeed="" if keys is None else json.dumps(keys, indent=2),
        calls=torch_calls(layout) or "",
        notes=notes_on(one),
    )


def _told(name: str, predicted: PredictedLayout) -> str:
    """The label of a layout in figures: its name, and whether it does not fit."""
    return name if predicted.fits else SITE("plan.does_not_fit_2", name=name)


def _too_large(layout: Layout) -> str:
    """Why a server does not dry-run a layout; "" if it does."""
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


def _two(one: PredictedLayout, other: PredictedLayout) -> list[tuple[str, PredictedLayout]]:
    """Two layouts, named by stage and options and by all other differences."""
    first, second = words_of(one.layout), words_of(other.layout)
    kept = [0, *(at for at in range(1, len(first)) if first[at] != second[at])]
    names = [", ".join(words[at] for at in kept) for words in (first, second)]
    return [(f"A: {names[0]}", one), (f"B: {names[1]}", other)]


def _drawn(one: PredictedLayout, other: PredictedLayout) -> list[tuple[str, PredictedLayout]]:
    """Two layouts, with names short enough for the label below a bar."""
    both = (("A", one), ("B", other))
    return [(f"{letter}: {term(kind_of(each.layout))}", each) for letter, each in both]


def _compared(one: PredictedLayout, other: PredictedLayout, asked: PlanAddress) -> ComparedLayouts:
    first, second = _two(one, other)
    there = _choice_of(other.layout)
    return compared_of(
        first,
        second,
        alone=asked.address(beside=""),
        swapped=asked.address(**there, beside=code_of(_choice_of(one.layout))),
    )


def _siblings(one: PredictedLayout) -> list[tuple[str, PredictedLayout]]:
    """The same layout in every stage, and with the options based on a stage."""
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
    if term(kind_of(layout)) not in dict(found) and layout.pipeline == layout.cut.tensor == 1:
        found.append((term(kind_of(layout)), one))
    return found


def _grid(
    plan: LayoutSearch, asked: PlanAddress, one: PredictedLayout
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
            address=asked.address(tensor=str(at[0]), pipeline=str(at[1])),
            shade=None if rate is None else min(4, int(5 * rate / fastest)),
            is_chosen=at == (one.layout.cut.tensor, one.layout.pipeline),
        )
    return (
        tuple(sorted({tensor for tensor, _ in found})),
        tuple(sorted({pipeline for _, pipeline in found})),
        found,
    )


def _choice_of(layout: Layout) -> dict[str, str]:
    """The choices that make the page show exactly this layout.

    Without data-parallel ranks nothing is partitioned: a plan lists that as stage 0.
    """
    divides = layout.data > 1
    return {
        "stage": str(layout.config.stage if divides else 0),
        "options": (variant_of(layout) if divides else Variant.PLAIN).value,
        "recompute": layout.recompute.value,
        "batch": str(layout.batch),
        "tensor": str(layout.cut.tensor),
        "pipeline": str(layout.pipeline),
    }


def _address_of(layout: Layout, asked: PlanAddress) -> str:
    return asked.address(gpus=str(layout.num_ranks), **_choice_of(layout))


def _leading(layout: Layout, asked: PlanAddress) -> Leading:
    beside = asked.address(beside=code_of(_choice_of(layout)))
    return Leading(_address_of(layout, asked), beside)
