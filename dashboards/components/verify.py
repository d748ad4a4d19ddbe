"""The Verify page as Dash components: a pure function of what it shows.

Imports dash, zerosim's plots, `dashboards.pages`, zerosim's L0 and verify.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dash import html
from dash.development.base_component import Component

from zerosim import plots
from zerosim.dashboards.components.parts import (
    aria,
    card,
    cells_of,
    field,
    graph,
    head_of,
    link,
    table_of,
)
from zerosim.dashboards.pages.places import PlaceRow
from zerosim.dashboards.pages.verify import Choice, Planned, Question, Row, View
from zerosim.dashboards.texts import tied
from zerosim.quantities import format_exact_bytes
from zerosim.verify import Outcome, Verdict

BODY = "page"
PSI, COUNT = "own-psi", "own-n"
_COLUMNS = ("theory", "trace", "wire")
_PLAN = ("stage", "model states of a rank", "sent in a step")


def body(view: View, title: str) -> list[Component]:
    """All that stands below the tabs.

    Args:
        title: of the run.
    """
    return [
        _verdict(view, title),
        html.Div(
            [
                _choices("iteration", view.iterations),
                _choices("rank", view.ranks),
            ],
            className="choose",
        ),
        html.Div(
            [
                html.Div([_ledgers(view), *_places(view), _claims(view)], className="stack"),
                html.Div([_way(view), *_laws(view), _plan(view)], className="stack"),
            ],
            className="pair",
        ),
    ]


def _mark(outcome: Outcome | None) -> Component:
    said = outcome.value if outcome else "not checked"
    look, sign = (outcome.look, outcome.sign) if outcome else ("unknown", "\N{EN DASH}")
    return html.Span(sign, className=f"mark {look}", role="img", title=said, **aria(label=said))


def _verdict(view: View, title: str) -> Component:
    words = html.Div([html.H1(tied(view.headline), id="headline"), html.P(view.remark)])
    return html.Section(
        [_mark(view.report.outcome), words, html.P(title, className="verdict-run")],
        className=f"card verdict {view.mark}",
        **aria(labelledby="headline"),
    )


def _choices(name: str, choices: Sequence[Choice]) -> Component | None:
    if not choices:
        return None
    shown = [link(str(one.value), one.address, is_chosen=one.is_chosen) for one in choices]
    gaps: list[Component] = []
    for place, one in enumerate(choices):
        if place and one.value > choices[place - 1].value + 1:
            gaps.append(html.Span("…"))
        gaps.append(shown[place])
    return html.Nav([html.Span(name), *gaps], className="ranks", **aria(label=name))


def _ledgers(view: View) -> Component:
    def line(row: Row) -> Component:
        look = "repeats" if row.repeats else ""
        phase = html.Th(html.Span(row.phase), scope="row", className=look)
        numbers = (row.theory, row.trace, row.wire)
        return html.Tr(cells_of((phase, row.purpose, row.calls), numbers), className=row.look)

    totals = [
        html.Td(getattr(view.totals, name), className="number", id=f"total-{name}")
        for name in _COLUMNS
    ]
    psi = [getattr(view.psi_totals, name) for name in _COLUMNS]
    in_psi = html.Th(html.Span("in Ψ", className="unseen"), scope="row")
    parts = [
        head_of(("phase", "purpose", "calls"), _COLUMNS),
        html.Tbody([line(row) for row in view.rows]),
        html.Tfoot(
            [
                html.Tr([*cells_of(("total", "", ""), ()), *totals]),
                html.Tr(cells_of((in_psi, "", ""), psi), className="psi"),
            ]
        ),
    ]
    title = f"Three ledgers: bytes sent by rank {view.rank}"
    table = table_of("Ledgers, scrolls", parts, "ledgers")
    return card("ledgers", title, [table, html.P(view.spread, className="small")], view.facts)


def _way(view: View) -> Component:
    title = "From the law to the wire"
    if view.report.law_bytes is None or not view.rows:
        words = "No law is known for this program, so there is nothing to begin from."
        return card("way", title, [html.P(words)])
    causes = html.Ul(
        [
            html.Li(
                [
                    html.B(cause.cause),
                    f" {'+ ' if cause.bytes > 0 else ''}{format_exact_bytes(cause.bytes)}: ",
                    cause.words,
                ]
            )
            for cause in view.report.causes
        ],
        className="causes",
    )
    return card("way", title, [graph("waterfall", plots.waterfall(view.causes)), causes])


def _laws(view: View) -> list[Component]:
    if not view.laws:
        return []
    run = [row["curve"] for row in view.laws if row["kind"] == "run"]
    own = next(row["curve"] for row in view.laws if row["kind"] == "own")
    words = f"What a rank sends as N grows, in Ψ: the law of this run is {own}(N\N{MINUS SIGN}1)/N"
    said = html.P("; ".join([words, *run]), className="small")
    return [card("law", "Which law is it?", [said, graph("laws", plots.laws(view.laws))])]


def _claims(view: View) -> Component:
    def line(claim: Verdict) -> Component:
        outcome, said = claim.outcome, None
        if outcome and outcome is not Outcome.AS_PREDICTED:
            said = html.Span(outcome.value, className=f"outcome {outcome.look}")
        formula = html.Span(claim.formula, className="formula")
        words = html.Div([html.B(claim.title), said, formula])
        return html.Li([_mark(outcome), words, html.Span(claim.measured, className="measured")])

    lines = [line(claim) for claim in view.claims]
    if view.no_memory:
        words = html.Div([html.B("Memory"), html.Span(view.no_memory)])
        lines.append(html.Li([_mark(None), words]))
    notes = [html.P(note, className="small") for note in view.notes]
    claims = html.Ul(lines, className="claims")
    return card("claims", "Claims, with this run's numbers in them", [claims, *notes])


def _places(view: View) -> list[Component]:
    places, cards = view.places, []
    if places.copies:
        head = head_of(
            ("link", "phase", "copies", "how often"),
            ("theory", "trace", "kernel\N{RIGHT SINGLE QUOTATION MARK}s counter"),
        )
        framing = (
            f"Files are {places.framing} B more than their content: heads, checksums, whole pages. "
            if places.framing
            else ""
        )
        words = (
            f"{framing}The disk's counter is the kernel's of the thread that reads or writes; "
            "the bus of a run without a GPU has none."
        )
        table = table_of("Copies, scrolls", [head, _place_rows(places.copies)], "ledgers places")
        title = f"Copied between the tiers of rank {view.rank}"
        parts = [table, html.P(words, className="small")]
        cards.append(card("copies", title, parts, "bytes of one step"))
    if places.links:
        head = head_of(("link", "phase", "purpose", "calls"), ("theory", "trace", "sockets"))
        parts = [table_of("Links, scrolls", [head, _place_rows(places.links)], "ledgers places")]
        if places.interfaces:
            parts.append(_interfaces(places.interfaces))
        facts = f"{view.report.num_nodes} nodes · bytes of one step"
        cards.append(card("links", f"Sent by rank {view.rank}, by link", parts, facts))
    return cards


def _place_rows(rows: Iterable[PlaceRow]) -> Component:
    return html.Tbody(
        [
            html.Tr(
                cells_of(
                    (row.where, row.phase, row.what, row.calls),
                    (row.theory, row.trace, row.counted),
                ),
                className="sum" if row.is_total else "off" if row.is_off else "",
            )
            for row in rows
        ]
    )


def _interfaces(rows: Iterable[PlaceRow]) -> Component:
    numbers = ("sockets of ranks", "other connections", "packet headers", "counted")
    lines = [
        html.Tr(
            cells_of((row.where, row.what), (row.theory, row.calls, row.trace, row.counted)),
            className="off" if row.is_off else "",
        )
        for row in rows
    ]
    caption = html.Caption("Network interfaces over the whole run, as the kernel counts them")
    parts = [caption, head_of(("node", "interface"), numbers), html.Tbody(lines)]
    return table_of("Interfaces, scrolls", parts, "ledgers places")


def _plan(view: View) -> Component:
    fields = html.Div(
        [
            field("Ψ, parameters", PSI, "psi", view.question.psi),
            field("N, ranks", COUNT, "n", view.question.n),
        ],
        className="plan",
    )
    answer = _planned(view.question, view.planned)
    return card("plan", "The paper's laws with your numbers", [fields, answer, _paper(view)])


def _planned(question: Question, lines: Iterable[Planned]) -> Component:
    if question.problem:
        return html.P(question.problem, className="wrong", role="alert")
    rows = [
        html.Tr(
            [
                html.Th(line.stage, scope="row"),
                html.Td([html.Div(line.memory_law), html.Div(line.memory)]),
                html.Td([html.Div(line.traffic_law), html.Div(line.traffic)]),
            ]
        )
        for line in lines
    ]
    return table_of("Laws, scrolls", [head_of(_PLAN), html.Tbody(rows)])


def _paper(view: View) -> Component:
    models = [html.Th(one, scope="colgroup", colSpan=3) for one in ("7.5B", "128B", "1T")]
    stages = [
        html.Th(f"ZeRO-{stage}", scope="col", className="number")
        for _ in models
        for stage in (1, 2, 3)
    ]
    head = html.Thead([html.Tr([html.Th("N", scope="col", rowSpan=2), *models]), html.Tr(stages)])
    rows = html.Tbody([html.Tr(cells_of((count,), cells)) for count, cells in view.paper])
    summary = html.Summary("The paper's Table 1, in GB, as it is printed")
    return html.Details([summary, table_of("Table 1, scrolls", [head, rows])])
