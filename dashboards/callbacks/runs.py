"""The list of runs is looked at again every few seconds, so that a new trace appears.

Imports dash and its siblings of the dashboard.
"""

from __future__ import annotations

from dash import Dash, Input, Output, State
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from dashboards.components.runs import RUNS_LIST, RUNS_SEEN, RUNS_TITLE, run_list
from dashboards.library import Library
from dashboards.pages import replay


def register(app: Dash, library: Library) -> None:
    """Answer for the list of runs."""

    @app.callback(
        Output(RUNS_TITLE, "children"),
        Output(RUNS_LIST, "children"),
        Output(RUNS_SEEN, "data"),
        Input(replay.CLOCK, "n_intervals"),
        State(replay.ADDRESS, "search"),
        State(RUNS_SEEN, "data"),
    )
    def _update(_: int | None, search: str | None, seen: str | None) -> tuple[str, Component, str]:
        runs = replay.runs_of(library, search)
        if runs.state == seen:
            raise PreventUpdate
        return runs.title, run_list(runs), runs.state
