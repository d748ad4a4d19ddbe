"""Replay: what happens, step by step? The player fills it; Dash adds the list of runs.

Imports the standard library, dash, `dashboards.components`, `dashboards.library`.
"""

from __future__ import annotations

from urllib.parse import parse_qs, quote

from dash import dcc, html

from dashboards.components.runs import Runs, run_menu
from dashboards.library import Library

PATH = "/replay"
TITLE = "Replay"
ADDRESS = "address"
CLOCK = "clock"
LOOK_EVERY_MS = 3000
"""How often the list of runs is looked at again."""


def address_of(name: str) -> str:
    """Where a trace is replayed."""
    return f"{PATH}?trace={quote(name)}"


def runs_of(library: Library, query: str | None) -> Runs:
    """The list of runs beside the one that an address asks for.

    Args:
        library: all of them.
        query: what the address says after "?".
    """
    asked = parse_qs((query or "").removeprefix("?")).get("trace")
    default = library.default()
    shown = asked[0] if asked else (None if default is None else default.name)
    return Runs(library.entries(), shown, address_of)


def layout(runs: Runs) -> html.Div:
    """What Dash renders of this page."""
    return html.Div(
        [
            dcc.Location(id=ADDRESS, refresh=False),
            dcc.Interval(id=CLOCK, interval=LOOK_EVERY_MS),
            run_menu(runs),
        ],
        id="runs-slot",
    )
