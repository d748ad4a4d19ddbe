"""The Plan page as Dash components: a pure function of its contents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dash import html
from dash.development.base_component import Component

from zerosim.base.language import term
from zerosim.base.quantities import format_amount, format_bytes, format_exact
from zerosim.dashboards.components.parts import (
    aria,
    card,
    cells_of,
    graph,
    head_of,
    table_of,
)
from zerosim.dashboards.components.plan_choices import choices_of
from zerosim.dashboards.components.plan_compared import compared_of
from zerosim.dashboards.pages.plan import PlanView
from zerosim.dashboards.pages.plan_said import seconds
from zerosim.dashboards.pages.planned import Shown
from zerosim.dashboards.texts import SITE, tied
from zerosim.view.plots.peaks import plain_peaks
from zerosim.view.plots.scaling_curve import plain_scaling
from zerosim.view.plots.steptimes import plain_step_times
from zerosim.view.plots.theme import PlainFigure

BODY = "planner"


def body(view: PlanView, *, folded: bool = False, simulates: bool = False) -> list[Component]:
    """Everything below the tabs.

    Args:
        simulates: whether this visitor can have the server simulate.
        folded: omit tables that are folded; `listed` has them. They are most of the page's parts,
            and Dash takes longer for each than the server.
    """
    shown = view.shown
    if shown is None:
        line = html.P(view.problem, className="wrong", role="alert")
        return [_section([html.H1(SITE("plan.no_plan")), line], "planned"), choices_of(view)]
    return [
        _result(shown),
        *([] if shown.compared is None else [compared_of(shown.compared)]),
        choices_of(view),
        html.Div([_memory(shown, folded), _times(shown, folded)], className="halves"),
        html.Div([_scaling(shown, folded), _grid(shown)], className="halves"),
        _fastest(shown),
        _words(shown, simulates),
    ]


def _section(parts: list[Component], look: str) -> Component:
    return html.Section(parts, className=f"card {look}")


def _result(shown: Shown) -> Component:
    """The top of the page: the answer, its numbers, and the basis of these numbers."""
    facts = [
        html.Div(
            [html.Dt(one.label), html.Dd(tied(one.value))], className="bad" if one.is_bad else ""
        )
        for one in shown.facts
    ]
    parts = [
        html.H1(tied(shown.headline), id="headline"),
        html.P(tied(shown.remark)),
        html.Dl(facts, className="facts"),
        *(html.P(words, className="small") for words in (shown.model, shown.basis) if words),
    ]
    return _section(parts, "planned" if shown.fits else "planned bad")


def _folded(name: str, words: str, shown: Shown, is_left_out: bool) -> Component:
    """A table that is unfolded by its summary."""
    opens = html.Summary(words, id=unfolding(name), n_clicks=0)
    parts = [] if is_left_out else [_LISTED[name](shown)]
    return html.Details([opens, html.Div(parts, id=unfolded(name))])


def unfolding(name: str) -> str:
    """The component that unfolds a table."""
    return f"{name}-more"


def unfolded(name: str) -> str:
    """The address of an unfolded table."""
    return f"{name}-listed"


def listed(name: str, view: PlanView) -> list[Component]:
    """One of `TABLES`; empty if there is no plan."""
    return [] if view.shown is None else [_LISTED[name](view.shown)]


def _memory(shown: Shown, folded: bool) -> Component:
    figure = plain_peaks(shown.memories, shown.card_bytes)
    _lead_by_name(figure, "x", shown.stages)
    more = _folded("memory", f"{shown.memory.title}: {shown.chosen}", shown, folded)
    said = [html.P(tied(shown.dry), className="small", id="dry")] if shown.dry else []
    title = SITE("plan.memory_of_a_gpu_at_its")
    return card("memory", title, [graph("peaks", figure), *said, more], _by(shown))


def _by(shown: Shown) -> str:
    """What each bar of a figure represents: a stage or a layout."""
    return SITE("plan.by_stage" if shown.compared is None else "plan.by_layout")


def _lead_by_name(figure: PlainFigure, axis: str, stages: Mapping[str, str]) -> None:
    """Pressing a bar opens its layout; `assets/plan.js` handles it."""
    for bars in figure.data:
        bars["customdata"] = [stages[name] for name in bars[axis]]


def _memory_listed(shown: Shown) -> Component:
    rows = [
        html.Tr(
            cells_of(
                (term(row["part"]), row["formula"], row["source"]), (format_exact(row["bytes"]),)
            )
        )
        for row in shown.memory
    ]
    head = head_of(
        (SITE("plan.part"), SITE("plan.formula"), SITE("plan.source")),
        (SITE("plan.bytes_predicted"),),
    )
    total = format_exact(sum(shown.memory["bytes"]))
    foot = html.Tfoot(html.Tr(cells_of((SITE("plan.together"), "", ""), (total,))))
    return table_of(SITE("plan.parts_of_the_peak_scrolls"), [head, html.Tbody(rows), foot])


def _times(shown: Shown, folded: bool) -> Component:
    figure = plain_step_times(shown.times)
    _lead_by_name(figure, "y", shown.stages)
    more = _folded("times", SITE("plan.the_same_as_a_table"), shown, folded)
    title = SITE("plan.where_the_time_of_a_step")
    return card("times", title, [graph("steptimes", figure), more], _by(shown))


def _times_listed(shown: Shown) -> Component:
    rows = [
        html.Tr(
            cells_of(
                (
                    _leading(row["layout"], shown.stages[row["layout"]]),
                    term(row["cause"]),
                ),
                (f"{row['seconds']:,.4f}",),
            )
        )
        for row in shown.times
    ]
    head = head_of((SITE("plan.layout"), SITE("plan.cause")), (SITE("plan.s_predicted"),))
    return table_of(SITE("plan.times_scrolls"), [head, html.Tbody(rows)])


def _scaling(shown: Shown, folded: bool) -> Component:
    figure = plain_scaling(shown.scaling, shown.chosen)
    for curve, name in zip(figure.data, dict.fromkeys(shown.scaling["layout"]), strict=True):
        curve["customdata"] = [shown.sizes.get((name, gpus), "") for gpus in curve["x"]]
    said = [
        html.P(words, className="small")
        for words in (shown.hiding, SITE("plan.more_gpus"))
        if words
    ]
    more = _folded("scaling", SITE("plan.the_same_as_a_table_predicted"), shown, folded)
    title = SITE("plan.when_does_communication_stop_hiding_predicted")
    return card("scaling", title, [graph("curves", figure), *said, more])


def _scaling_listed(shown: Shown) -> Component:
    rows = [
        html.Tr(
            cells_of(
                (
                    _leading(row["layout"], shown.sizes.get((row["layout"], row["gpus"]), "")),
                    format_exact(row["gpus"]),
                    format_exact(row["tokens_per_gpu"]),
                ),
                (
                    f"{row['tokens_per_second_per_gpu']:,.0f}",
                    f"{row['mfu']:.1%}",
                    "" if row["hiding_tokens"] is None else f"{row['hiding_tokens']:,.0f}",
                    SITE("plan.yes") if row["fits"] else SITE("plan.no"),
                ),
            )
        )
        for row in shown.scaling
    ]
    numbers = (
        SITE("plan.tokens_s_a_gpu"),
        SITE("plan.mfu"),
        SITE("plan.c_w_tokens"),
        SITE("plan.fits"),
    )
    head = head_of((SITE("plan.layout"), SITE("plan.gpus"), SITE("plan.tokens_a_gpu")), numbers)
    return table_of(SITE("plan.scaling_scrolls"), [head, html.Tbody(rows)])


def _leading(name: str, address: str) -> Component:
    """The heading of a row, with a link to its layout if there is an address."""
    return html.Th(html.A(name, href=address) if address else name, scope="row")


_LISTED: dict[str, Callable[[Shown], Component]] = {
    "memory": _memory_listed,
    "times": _times_listed,
    "scaling": _scaling_listed,
}
TABLES = tuple(_LISTED)
"""The names of the tables that can be unfolded."""


def _grid(shown: Shown) -> Component:
    def cell(tensor: int, pipeline: int) -> Component:
        found = shown.grid.get((tensor, pipeline))
        if found is None:
            return html.Td("", className="none")
        look = "chosen " if found.is_chosen else ""
        look += "none" if found.shade is None else f"shade-{found.shade}"
        named = SITE(
            "plan.tensor_pipeline",
            tensor=tensor,
            pipeline=pipeline,
            words=found.words,
            detail=found.detail,
        )
        leads = html.A(
            [html.B(found.words), html.Span(found.detail)], href=found.address, title=named
        )
        return html.Td(leads, className=look)

    heads = [html.Th(f"T = {tensor}", scope="col") for tensor in shown.tensors]
    rows = [
        html.Tr(
            [
                html.Th(f"p = {pipeline}", scope="row"),
                *(cell(tensor, pipeline) for tensor in shown.tensors),
            ]
        )
        for pipeline in shown.pipelines
    ]
    parts = [html.Thead(html.Tr([html.Th("p, T", scope="col"), *heads])), html.Tbody(rows)]
    words = SITE("plan.the_fastest_layout_that_fits_of")
    said = html.P(words, className="small")
    title = SITE("plan.tensor_x_pipeline_parallel_predicted")
    return card("grid", title, [table_of(SITE("plan.grid_scrolls"), parts, "heat"), said])


def _fastest(shown: Shown) -> Component:
    rows = []
    first_beyond = len(shown.fastest) - shown.num_beyond
    for at, ((one, leads), row) in enumerate(zip(shown.fastest, shown.table, strict=True)):
        if at == first_beyond:
            parted = html.Th(SITE("plan.beyond"), scope="colgroup", colSpan=9)
            rows.append(html.Tr(parted, className="part"))
        numbers: tuple[Any, ...] = (
            format_bytes(row["peak_bytes"]),
            seconds(row["step_s"]),
            format_amount(row["tokens_per_day"]),
            f"{row['mfu']:.1%}",
            html.A("A/B", href=leads.beside, title=SITE("plan.beside_this")),
        )
        name = _leading(row["layout"], leads.alone)
        words = (
            name,
            row["tensor x pipeline x data"],
            row["micro-batch x steps"],
            term(one.limit),
        )
        rows.append(html.Tr(cells_of(words, numbers)))
    head = head_of(
        (
            SITE("plan.layout"),
            SITE("plan.t_x_p_x_data"),
            SITE("plan.batch_x_steps"),
            SITE("plan.limited_by"),
        ),
        (
            SITE("plan.peak"),
            SITE("plan.a_step"),
            SITE("plan.tokens_a_day"),
            SITE("plan.mfu"),
            SITE("plan.compare"),
        ),
    )
    if not rows:
        return card(
            "fastest",
            SITE("plan.the_fastest_layouts_predicted"),
            [html.P(SITE("plan.none_of_them_fits"))],
        )
    listed = table_of(SITE("plan.layouts_scrolls"), [head, html.Tbody(rows)])
    return card(
        "fastest",
        SITE("plan.the_fastest_layouts_predicted"),
        [listed],
        SITE("plan.of_these_choices"),
    )


def _simulated(shown: Shown, simulates: bool) -> list[Component]:
    """The button that has the server simulate the layout, or the reason for its absence."""
    if shown.too_large:
        return [html.P(SITE("plan.not_simulated_here", why=shown.too_large), className="small")]
    if not simulates:
        return []
    silence: dict[str, Any] = {"data-silent": SITE("plan.silent")}
    press = html.Button(SITE("plan.simulate_here"), id="simulate", type="button", **silence)
    said = html.Span("", id="simulated", role="status", **aria(live="polite"))
    return [html.P([press, " ", said], className="small")]


def _words(shown: Shown, simulates: bool) -> Component:
    def told(title: str, text: str) -> list[Component]:
        return [html.H3(title), html.Pre(text, tabIndex=0, role="group", **aria(label=title))]

    parts: list[Component] = [html.P(note, className="small") for note in shown.notes]
    if shown.command:
        parts += [*told(SITE("plan.simulate_it"), shown.command), *_simulated(shown, simulates)]
    else:
        parts.append(
            html.P(SITE("plan.not_simulated", no_command=shown.no_command), className="small")
        )
    if shown.deepspeed:
        parts += told(SITE("plan.deepspeed_s_configuration"), shown.deepspeed)
    if shown.calls:
        parts += told(SITE("plan.with_pytorch_s_own_calls"), shown.calls)
    return card("words", SITE("plan.this_layout", chosen=shown.chosen), parts)
