"""The list of runs: a native disclosure with links, which a keyboard and a screen reader know.

Imports dash, `dashboards.entry`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from zerosim.dashboards.entry import Entry

RUNS_MENU = "runs-menu"
RUNS_TITLE = "runs-title"
RUNS_LIST = "runs-list"
RUNS_SEEN = "runs-seen"
NO_RUNS = "no runs yet"
CHOOSE = "choose a run"


@dataclass(frozen=True, slots=True)
class Runs:
    """What the menu shows.

    Attributes:
        entries: all traces.
        shown: the name of the one on the page.
        address_of: where a trace of a name is shown.
    """

    entries: Sequence[Entry]
    shown: str | None
    address_of: Callable[[str], str]

    @property
    def title(self) -> str:
        """What the closed menu says."""
        if not self.entries:
            return NO_RUNS
        if self.shown and any(entry.name == self.shown for entry in self.entries):
            return self.shown
        return CHOOSE

    @property
    def state(self) -> str:
        """Another text whenever the menu would look otherwise."""
        lines = [(each.name, each.title, each.complete, each.problem) for each in self.entries]
        return hashlib.sha256(repr((self.shown, lines)).encode("utf-8", "replace")).hexdigest()


def run_menu(runs: Runs) -> html.Details:
    """The menu."""
    return html.Details(
        [
            html.Summary(runs.title, id=RUNS_TITLE),
            html.Nav(run_list(runs), id=RUNS_LIST, **_aria(label="Runs")),
            dcc.Store(id=RUNS_SEEN, data=runs.state),
        ],
        id=RUNS_MENU,
    )


def run_list(runs: Runs) -> Component:
    """What the open menu shows: a link for each trace that can be shown, text for the others."""
    if not runs.entries:
        return html.P("No trace has been recorded here as yet: try zerosim run.")
    return html.Ul([html.Li(_item(entry, runs)) for entry in runs.entries])


def _item(entry: Entry, runs: Runs) -> Component:
    if entry.problem:
        return html.P([html.Span(entry.name), html.Small(entry.problem)], className="problem")
    return html.A(
        [html.Span(entry.name), html.Small(f"{entry.title}{entry.remark}")],
        href=runs.address_of(entry.name),
        **(_aria(current="page") if entry.name == runs.shown else {}),
    )


def _aria(**states: str) -> dict[str, Any]:
    return {f"aria-{name}": value for name, value in states.items()}
