"""The description of one layout on the page Plan: sentences and single numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from zerosim.base.config.shapes import parameters_of
from zerosim.base.language import term
from zerosim.base.quantities import format_amount, format_bytes, format_exact
from zerosim.dashboards.pages.plan_compared import MINUS
from zerosim.dashboards.texts import SITE
from zerosim.predict.plan import PredictedLayout, name_of
from zerosim.predict.plan.dry import dry_peak
from zerosim.predict.plan.predict import tokens_that_hide

_TIED = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Fact:
    """A main number, with its name."""

    label: str
    value: str
    is_bad: bool = False


def headline_of(one: PredictedLayout, what: str) -> str:
    """The time of a step, or that no layout fits; `what` describes the model on its GPUs."""
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


def remark_of(one: PredictedLayout) -> str:
    """The division of ranks and batch by the layout."""
    layout = one.layout
    grid = f"{layout.cut.tensor} x {layout.pipeline} x {layout.data}"
    parts = [
        SITE("plan.tensor_x_pipeline_x_data", grid=grid),
        SITE("plan.micro_batch_of_them", batch=layout.batch, micro_batches=layout.micro_batches),
    ]
    return SITE("plan.predicted_2", parts=" · ".join(parts))


def facts_of(one: PredictedLayout) -> tuple[Fact, ...]:
    """The main numbers; only the peak for a layout that does not fit."""
    peak = SITE(
        "plan.fact_of",
        bytes=format_bytes(one.footprint.bytes),
        memory_bytes=format_bytes(one.question.memory_bytes),
    )
    memory = Fact(SITE("plan.fact_peak"), peak, is_bad=not one.fits)
    if not one.fits:
        return (memory,)
    rate = one.tokens_per_second / one.layout.num_ranks
    return (
        Fact(SITE("plan.fact_step"), seconds(one.step_s)),
        Fact(SITE("plan.fact_rate"), f"{rate:,.0f}"),
        Fact(SITE("plan.mfu"), f"{one.mfu:.1%}"),
        memory,
        Fact(SITE("plan.fact_day"), format_amount(one.tokens_per_day)),
        Fact(SITE("plan.fact_limit"), term(one.limit)),
    )


def own_model_of(one: PredictedLayout) -> str:
    """A description of the model in a user's own configuration."""
    shape = one.layout.shape
    all_of, active = parameters_of(shape), parameters_of(shape, active=True)
    said = "" if active == all_of else SITE("plan.own_active", active=format_amount(active))
    return SITE(
        "plan.own_model",
        family=getattr(shape, "family", ""),
        layers=shape.layers,
        width=format_exact(shape.width),
        parameters=format_amount(all_of),
        active=said,
    )


def dry_of(one: PredictedLayout) -> str:
    """Why the peak of its dry run differs, with each part of the difference."""
    found, plan = dry_peak(one), one.footprint.bytes
    if found is None:
        return ""
    parts = [
        (found.kept, "plan.dry_kept"),
        (-found.scores, "plan.dry_scores"),
        (-found.table, "plan.dry_table"),
        (-found.margin, "plan.dry_margin"),
        (found.moment, "plan.dry_moment"),
    ]
    assert plan + sum(size for size, _ in parts) == found.bytes, parts
    said = [
        SITE(words, bytes=f"{'+' if size > 0 else MINUS}{_TIED}{format_bytes(abs(size))}")
        for size, words in parts
        if size
    ]
    return SITE(
        "plan.dry",
        bytes=format_bytes(found.bytes),
        plan=format_bytes(plan),
        parts=SITE("plan.dry_between").join(said),
    )


def hiding_of(one: PredictedLayout) -> str:
    """Whether stage 3's gathers are hidden with this number of tokens per GPU."""
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


_MANY_S = 100


def seconds(value: float) -> str:
    """The time of a step: "6.33 s", "51.2 ms", "1,526 s"."""
    if value >= _MANY_S:
        return f"{value:,.0f} s"
    return f"{value:,.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"
