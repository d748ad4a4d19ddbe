"""The list of runs is looked at again every few seconds, so that a new trace appears.

Imports dash and its siblings of the dashboard.
"""

from __future__ import annotations

from dash import Dash, Input, Output, State
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from zerosim.dashboards import site
from zerosim.dashboards.components.runs import RUNS_LIST, RUNS_SEEN, RUNS_TITLE, run_list
from zerosim.dashboards.library import Library


def register(app: Dash, library: Library) -> None:
    """Answer for the list of runs."""

    @app.callback(
        Output(RUNS_TITLE, "children"),
        Output(RUNS_LIST, "children"),
        Output(RUNS_SEEN, "data"),
        Input(site.CLOCK, "n_intervals"),
        State(site.ADDRESS, "pathname"),
        State(site.ADDRESS, "search"),
        State(RUNS_SEEN, "data"),
    )
    def _update(
        _: int | None, path: str | None, search: str | None, seen: str | None
    ) -> tuple[str, Component, str]:
        if not all(one is None or isinstance(one, str) for one in (path, search)):
            raise PreventUpdate  # no page of ours has such an address
        runs = site.runs_of(library, path, search)
        if runs.state == seen:
            raise PreventUpdate
        return runs.title, run_list(runs), runs.state
