"""The Plan page is a function of its address: controls link to it, and the page follows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from zerosim.dashboards.callbacks.answering import register_page
from zerosim.dashboards.callbacks.verify import query_of
from zerosim.dashboards.components.plan import (
    BODY,
    TABLES,
    body,
    listed,
    unfolded,
    unfolding,
)
from zerosim.dashboards.components.plan_choices import GPUS, OWN_MODEL, TOKENS
from zerosim.dashboards.components.written import with_written
from zerosim.dashboards.page import DashParts
from zerosim.dashboards.pages import plan
from zerosim.dashboards.planapi import simulates

ADDRESS = "plan-address"
_ANSWERED = frozenset({OWN_MODEL, *map(unfolding, TABLES), *map(unfolded, TABLES)})
"""Components that stay: a form keeps pasted text, and a table is loaded when it is unfolded."""


class PlanPage:
    """The contents of the page at an address.

    Attributes:
        parts: the data of a page with which Dash starts.
    """

    def __init__(self, parts: Callable[[], DashParts]) -> None:
        """`parts` as the attribute."""
        self.parts = parts

    def body(self, query: Mapping[str, str]) -> list[Component]:
        """Everything below the tabs, as written by the server."""
        return body(plan.view(query), simulates=simulates())

    def layout(self, search: str) -> Component:
        """The page, and the address that it follows."""
        place = dcc.Location(id=ADDRESS, search=search, refresh=False)
        return html.Div([place, html.Div(self.follow(search), id=BODY)])

    def follow(self, search: object) -> list[Component]:
        """The page at another of its addresses; its tables are loaded when they are unfolded."""
        parts = body(plan.view(query_of(search)), folded=True, simulates=simulates())
        return with_written(parts, _ANSWERED)

    def unfold(self, name: str, clicks: object, search: object) -> list[list[Component]]:
        """A table of the page at an address, as the one output of its callback."""
        if not clicks:
            raise PreventUpdate
        return [with_written(listed(name, plan.view(query_of(search))), _ANSWERED)]


def answer_typed(gpus: object, tokens: object, search: object) -> str:
    """The address for the numbers that were typed."""
    query = query_of(search)
    if not isinstance(gpus, str) or not isinstance(tokens, str):
        raise PreventUpdate
    shown = {**plan.USUAL, **query.to_dict()}
    if (gpus, tokens) == (shown["gpus"], shown["tokens"]):
        raise PreventUpdate  # the page answers it already
    return plan.typed(query, gpus, tokens).removeprefix(plan.PATH)


def register(app: Dash, page: PlanPage) -> None:
    """Answer for the page's controls."""
    register_page(app, BODY, ADDRESS, (GPUS, TOKENS), follow=page.follow, answer=answer_typed)
    for name in TABLES:
        app.callback(
            [Output(unfolded(name), "children")],
            Input(unfolding(name), "n_clicks"),
            State(ADDRESS, "search"),
            prevent_initial_call=True,
        )(partial(page.unfold, name))
