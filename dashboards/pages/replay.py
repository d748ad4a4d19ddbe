"""Replay: what happens, step by step? The player fills it; Dash adds the list of runs.

Imports the standard library, dash, `dashboards.components`.
"""

from __future__ import annotations

from urllib.parse import quote

from dash import dcc, html

from dashboards.components.runs import RUNS_MENU, run_menu

PATH = "/replay"
TITLE = "Replay"
ADDRESS = "address"
CLOCK = "clock"
LOOK_EVERY_MS = 3000
"""How often the list of runs is looked at again."""


def address_of(name: str) -> str:
    """Where a trace is replayed."""
    return f"{PATH}?trace={quote(name)}"


def layout() -> html.Div:
    """What Dash renders of this page."""
    return html.Div(
        [
            dcc.Location(id=ADDRESS, refresh=False),
            dcc.Interval(id=CLOCK, interval=LOOK_EVERY_MS),
            run_menu(),
        ],
        id=f"{RUNS_MENU}-slot",
    )
