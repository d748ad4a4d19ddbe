"""Parts of pages as Dash components: cards, tables, charts, choices, fields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component
from plotly import graph_objects as go

from zerosim.dashboards.texts import SITE
from zerosim.view.plots.theme import PlainFigure

_GRAPH: dcc.Graph.Config = {"displayModeBar": False, "responsive": False}


def problem(line: str, hint: str) -> list[Component]:
    """Replaces a page that cannot be shown."""
    return [
        html.Section(
            [html.H1(SITE("problem.this_cannot_be_shown")), html.P(line), html.P(hint)],
            className="card problem-card",
        )
    ]


def aria(**states: str) -> dict[str, Any]:
    """Text for screen readers."""
    return {f"aria-{name}": value for name, value in states.items()}


def card(name: str, title: str, parts: Iterable[Any], beside: str = "") -> Component:
    """A part of the page with a title, and its unit on the right."""
    head: Component = html.H2(title, id=f"{name}-title")
    if beside:
        head = html.Div([head, html.P(beside, className="figure")], className="heading")
    return html.Section([head, *parts], className="card", **aria(labelledby=f"{name}-title"))


def table_of(label: str, parts: Sequence[Any], look: str = "") -> Component:
    """A table that scrolls within its card if there is no room."""
    rows = html.Table(list(parts), className=look)
    return html.Div(rows, className="wide", tabIndex=0, role="group", **aria(label=label))


def head_of(words: Sequence[str], numbers: Sequence[str] = ()) -> Component:
    """The names of a table's columns."""
    cells = [html.Th(word, scope="col") for word in words]
    cells += [html.Th(word, scope="col", className="number") for word in numbers]
    return html.Thead(html.Tr(cells))


def cells_of(words: Sequence[Any], numbers: Sequence[str]) -> list[Component]:
    """The cells of a row; the first one names the row."""
    named, *others = words
    name = named if isinstance(named, Component) else html.Th(named, scope="row")
    return [name, *map(html.Td, others), *(html.Td(one, className="number") for one in numbers)]


def graph(name: str, figure: go.Figure | PlainFigure) -> Component:
    """A chart; its title and its text alternative are beside it in the page.

    `assets/dash.js` fits it to its place, because Dash would draw it twice more for that.
    """
    plain = figure.to_plotly_json()
    layout = {name: value for name, value in plain["layout"].items() if name != "title"}
    layout["margin"] = {**layout.get("margin", {}), "t": 10, "l": 10, "b": 10}
    fills = {"height": "100%"}
    drawn = dcc.Graph(
        id=name, figure={"data": plain["data"], "layout": layout}, config=_GRAPH, style=fills
    )
    return html.Div(drawn, className="graph", **aria(hidden="true"))


def link(words: str, address: str, *, is_chosen: bool) -> Component:
    """One of several choices; the chosen one is not a link."""
    if is_chosen:
        return html.Span(words, className="chosen", **aria(current="true"))
    return dcc.Link(words, href=address)


def field(label: str, name: str, given: str, value: str) -> Component:
    """A text field, submitted when Enter is pressed in it or in another field of the page."""
    typed = dcc.Input(id=name, name=given, value=value, inputMode="numeric")
    return html.Label([label, typed])
