"""The list of runs is looked at again every few seconds, so that a new trace appears.

Imports dash and its siblings of the dashboard.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from urllib.parse import parse_qs

from dash import Dash, Input, Output, State
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from dashboards.components.runs import RUNS_LIST, RUNS_SEEN, RUNS_TITLE, run_list, title_of
from dashboards.entry import Entry
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
        entries = library.entries()
        now = state_of(entries)
        if now == seen:
            raise PreventUpdate
        default = library.default()
        shown = shown_name(search, None if default is None else default.name)
        return title_of(entries, shown), run_list(entries, shown, replay.address_of), now


def shown_name(search: str | None, default: str | None) -> str | None:
    """The trace that an address asks for."""
    asked = parse_qs((search or "").removeprefix("?")).get("trace")
    return asked[0] if asked else default


def state_of(entries: Sequence[Entry]) -> str:
    """Another text whenever the list would look otherwise."""
    shown = [(entry.name, entry.title, entry.complete, entry.problem) for entry in entries]
    return hashlib.sha256(repr(shown).encode("utf-8", "replace")).hexdigest()[:16]
