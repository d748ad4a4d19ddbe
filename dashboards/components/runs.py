"""The list of runs: a native disclosure with links, which a keyboard and a screen reader know.

Imports dash, `dashboards.entry`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from dashboards.entry import Entry

RUNS_MENU = "runs-menu"
RUNS_TITLE = "runs-title"
RUNS_LIST = "runs-list"
RUNS_SEEN = "runs-seen"
NO_RUNS = "no runs yet"
CHOOSE = "choose a run"


def run_menu() -> html.Details:
    """The menu before it is filled."""
    return html.Details(
        [
            html.Summary(CHOOSE, id=RUNS_TITLE),
            html.Nav(id=RUNS_LIST, **_aria(label="Runs")),
            dcc.Store(id=RUNS_SEEN),
        ],
        id=RUNS_MENU,
    )


def title_of(entries: Sequence[Entry], shown: str | None) -> str:
    """What the closed menu says.

    Args:
        entries: all traces.
        shown: the name of the trace on the page.
    """
    if not entries:
        return NO_RUNS
    return shown if any(entry.name == shown for entry in entries) and shown else CHOOSE


def run_list(
    entries: Sequence[Entry], shown: str | None, address_of: Callable[[str], str]
) -> Component:
    """What the open menu shows: a link for each trace that can be shown, text for the others."""
    if not entries:
        return html.P("No trace has been recorded here as yet: try zerosim run.")
    return html.Ul([html.Li(_item(entry, shown, address_of)) for entry in entries])


def _item(entry: Entry, shown: str | None, address_of: Callable[[str], str]) -> Component:
    if entry.problem:
        return html.P([html.Span(entry.name), html.Small(entry.problem)], className="problem")
    remark = "" if entry.complete else " · still running, or cut short"
    return html.A(
        [html.Span(entry.name), html.Small(f"{entry.title}{remark}")],
        href=address_of(entry.name),
        **(_aria(current="page") if entry.name == shown else {}),
    )


def _aria(**states: str) -> dict[str, Any]:
    return {f"aria-{name}": value for name, value in states.items()}
