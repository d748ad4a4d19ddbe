"""The Verify page as Dash components: a pure function of what it shows.

Imports dash, zerosim's plots, `dashboards.pages`, zerosim's L0 and verify.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from zerosim import plots
from zerosim.dashboards.pages.places import PlaceRow
from zerosim.dashboards.pages.verify import Choice, Planned, Question, Row, View
from zerosim.quantities import format_exact_bytes
from zerosim.verify import Outcome, Verdict

BODY = "page"
PSI, COUNT = "own-psi", "own-n"
_COLUMNS = ("theory", "trace", "wire")
_PLAN = ("stage", "model states", "on a rank", "a step sends", "by a rank")
_GRAPH: dcc.Graph.Config = {"displayModeBar": False}


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
        html.Div([_ledgers(view), _way(view)], className="pair"),
        *_places(view),
        html.Div(
            [
                _claims(view),
                html.Div([*_laws(view), _plan(view)], className="stack"),
            ],
            className="pair",
        ),
    ]


def problem(line: str) -> list[Component]:
    """In place of a page that cannot be shown."""
    return [
        html.Section(
            [
                html.H1("This cannot be shown"),
                html.P(line),
                html.P("Choose another run from the list above."),
            ],
            className="card problem-card",
        )
    ]


def _aria(**states: str) -> dict[str, Any]:
    return {f"aria-{name}": value for name, value in states.items()}


def _mark(outcome: Outcome | None) -> Component:
    said = outcome.value if outcome else "not checked"
    look, sign = (outcome.look, outcome.sign) if outcome else ("unknown", "\N{EN DASH}")
    return html.Span(sign, className=f"mark {look}", role="img", title=said, **_aria(label=said))


def _verdict(view: View, title: str) -> Component:
    words = html.Div([html.H1(view.headline, id="headline"), html.P(view.remark)])
    return html.Section(
        [_mark(view.report.outcome), words, html.P(title, className="verdict-run")],
        className=f"card verdict {view.mark}",
        **_aria(labelledby="headline"),
    )


def _choices(name: str, choices: Sequence[Choice]) -> Component | None:
    if not choices:
        return None
    shown = [
        html.Span(one.value, className="chosen", **_aria(current="true"))
        if one.is_chosen
        else dcc.Link(str(one.value), href=one.address)
        for one in choices
    ]
    gaps: list[Component] = []
    for place, one in enumerate(choices):
        if place and one.value > choices[place - 1].value + 1:
            gaps.append(html.Span("…"))
        gaps.append(shown[place])
    return html.Nav([html.Span(name), *gaps], className="ranks", **_aria(label=name))


def _card(name: str, title: str, parts: Iterable[Any], beside: str = "") -> Component:
    """A part of the page with a title, and on its right what it is measured in."""
    head: Component = html.H2(title, id=f"{name}-title")
    if beside:
        head = html.Div([head, html.P(beside, className="figure")], className="heading")
    return html.Section([head, *parts], className="card", **_aria(labelledby=f"{name}-title"))


def _table(label: str, parts: Sequence[Any], look: str = "") -> Component:
    """A table that scrolls within its card where there is no room for it."""
    table = html.Table(list(parts), className=look)
    return html.Div(table, className="wide", tabIndex=0, role="group", **_aria(label=label))


def _head(words: Sequence[str], numbers: Sequence[str] = ()) -> Component:
    cells = [html.Th(word, scope="col") for word in words]
    cells += [html.Th(word, scope="col", className="number") for word in numbers]
    return html.Thead(html.Tr(cells))


def _cells(words: Sequence[Any], numbers: Sequence[str]) -> list[Component]:
    """The first names its row."""
    named, *others = words
    name = named if isinstance(named, Component) else html.Th(named, scope="row")
    return [name, *map(html.Td, others), *(html.Td(one, className="number") for one in numbers)]


def _ledgers(view: View) -> Component:
    def line(row: Row) -> Component:
        look = "repeats" if row.repeats else ""
        phase = html.Th(html.Span(row.phase), scope="row", className=look)
        numbers = (row.theory, row.trace, row.wire)
        return html.Tr(_cells((phase, row.purpose, row.calls), numbers), className=row.look)

    totals = [
        html.Td(getattr(view.totals, name), className="number", id=f"total-{name}")
        for name in _COLUMNS
    ]
    psi = [getattr(view.psi_totals, name) for name in _COLUMNS]
    in_psi = html.Th(html.Span("in Ψ", className="unseen"), scope="row")
    parts = [
        _head(("phase", "purpose", "calls"), _COLUMNS),
        html.Tbody([line(row) for row in view.rows]),
        html.Tfoot(
            [
                html.Tr([*_cells(("total", "", ""), ()), *totals]),
                html.Tr(_cells((in_psi, "", ""), psi), className="psi"),
            ]
        ),
    ]
    title = f"Three ledgers: bytes sent by rank {view.rank}"
    table = _table("Ledgers, scrolls", parts, "ledgers")
    return _card("ledgers", title, [table, html.P(view.spread, className="small")], view.facts)


def _graph(name: str, figure: Any) -> Component:
    """A chart; its title and its text alternative stand beside it in the page."""
    figure.update_layout(title=None, margin={"t": 10, "l": 10, "b": 10})
    fills = {"height": "100%"}
    graph = dcc.Graph(id=name, figure=figure, config=_GRAPH, responsive=True, style=fills)
    return html.Div(graph, className="graph", **_aria(hidden="true"))


def _way(view: View) -> Component:
    title = "From the law to the wire"
    if view.report.law_bytes is None or not view.rows:
        words = "No law is known for this program, so there is nothing to begin from."
        return _card("way", title, [html.P(words)])
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
    return _card("way", title, [_graph("waterfall", plots.waterfall(view.causes)), causes])


def _laws(view: View) -> list[Component]:
    if not view.laws:
        return []
    run = [row["curve"] for row in view.laws if row["kind"] == "run"]
    own = next(row["curve"] for row in view.laws if row["kind"] == "own")
    words = f"What a rank sends as N grows, in Ψ: the law of this run is {own}(N\N{MINUS SIGN}1)/N"
    said = html.P("; ".join([words, *run]), className="small")
    return [_card("law", "Which law is it?", [said, _graph("laws", plots.laws(view.laws))])]


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
    return _card("claims", "Claims, with this run's numbers in them", [claims, *notes])


def _places(view: View) -> list[Component]:
    places, cards = view.places, []
    if places.copies:
        head = _head(
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
        table = _table("Copies, scrolls", [head, _place_rows(places.copies)], "ledgers places")
        title = f"Copied between the tiers of rank {view.rank}"
        parts = [table, html.P(words, className="small")]
        cards.append(_card("copies", title, parts, "bytes of one step"))
    if places.links:
        head = _head(("link", "phase", "purpose", "calls"), ("theory", "trace", "sockets"))
        parts = [_table("Links, scrolls", [head, _place_rows(places.links)], "ledgers places")]
        if places.interfaces:
            parts.append(_interfaces(places.interfaces))
        facts = f"{view.report.num_nodes} nodes · bytes of one step"
        cards.append(_card("links", f"Sent by rank {view.rank}, by link", parts, facts))
    return cards


def _place_rows(rows: Iterable[PlaceRow]) -> Component:
    return html.Tbody(
        [
            html.Tr(
                _cells(
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
            _cells((row.where, row.what), (row.theory, row.calls, row.trace, row.counted)),
            className="off" if row.is_off else "",
        )
        for row in rows
    ]
    caption = html.Caption("Network interfaces over the whole run, as the kernel counts them")
    parts = [caption, _head(("node", "interface"), numbers), html.Tbody(lines)]
    return _table("Interfaces, scrolls", parts, "ledgers places")


def _plan(view: View) -> Component:
    fields = html.Div(
        [
            _field("Ψ, parameters", PSI, "psi", view.question.psi),
            _field("N, ranks", COUNT, "n", view.question.n),
        ],
        className="plan",
    )
    answer = _planned(view.question, view.planned)
    return _card("plan", "The paper's laws with your numbers", [fields, answer, _paper(view)])


def _field(label: str, name: str, given: str, value: str) -> Component:
    """What is typed counts when Enter is pressed or the field is left."""
    field = dcc.Input(id=name, name=given, value=value, debounce=True, inputMode="numeric")
    return html.Label([label, field])


def _planned(question: Question, lines: Iterable[Planned]) -> Component:
    if question.problem:
        return html.P(question.problem, className="wrong", role="alert")
    rows = [
        html.Tr(
            [
                html.Th(line.stage, scope="row"),
                html.Td(line.memory_law),
                html.Td(line.memory, className="number"),
                html.Td(line.traffic_law),
                html.Td(line.traffic, className="number"),
            ]
        )
        for line in lines
    ]
    heads = [
        html.Th(word, scope="col", className="number" if place in (2, 4) else "")
        for place, word in enumerate(_PLAN)
    ]
    return _table("Laws, scrolls", [html.Thead(html.Tr(heads)), html.Tbody(rows)])


def _paper(view: View) -> Component:
    models = [html.Th(one, scope="colgroup", colSpan=3) for one in ("7.5B", "128B", "1T")]
    stages = [
        html.Th(f"ZeRO-{stage}", scope="col", className="number")
        for _ in models
        for stage in (1, 2, 3)
    ]
    head = html.Thead([html.Tr([html.Th("N", scope="col", rowSpan=2), *models]), html.Tr(stages)])
    rows = html.Tbody([html.Tr(_cells((count,), cells)) for count, cells in view.paper])
    summary = html.Summary("The paper's Table 1, in GB, as it is printed")
    return html.Details([summary, _table("Table 1, scrolls", [head, rows])])
