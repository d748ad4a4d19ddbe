"""What all pages have in common: their tabs, and the list of runs.

Imports the standard library, dash, `dashboards.components`, `dashboards.library`,
`dashboards.pages`.
"""

from __future__ import annotations

from html import escape
from urllib.parse import parse_qs, quote

from dash import dcc, html

from zerosim.dashboards.components.runs import Runs, run_menu
from zerosim.dashboards.library import Library
from zerosim.dashboards.pages import compare, graph, lessons, replay, verify

PAGES = {page.PATH: page.TITLE for page in (replay, compare, verify, graph, lessons)}
_WITHOUT_RUN = frozenset({lessons.PATH})
"""Pages that show no run of the user's."""
ADDRESS = "address"
CLOCK = "clock"
LOOK_EVERY_MS = 3000
"""How often the list of runs is looked at again."""


def tabs(current: str, name: str | None) -> str:
    """The tabs of all pages as HTML.

    Args:
        current: address of the page that they stand on.
        name: the trace that it shows; the other pages then show the same.
    """
    query = "" if name is None else f"?trace={quote(name)}"
    links = "".join(
        f'<a href="{escape(path + ("" if path in _WITHOUT_RUN else query))}"'
        f"{_CURRENT if path == current or current.startswith(f'{path}/') else ''}>"
        f"{escape(title)}</a>"
        for path, title in PAGES.items()
    )
    return f'<nav class="tabs" aria-label="Pages">{links}</nav>'


_CURRENT = ' aria-current="page"'


def runs_of(library: Library, path: str | None, query: str | None) -> Runs:
    """The list of runs beside the one that an address asks for.

    Args:
        library: all of them.
        path: of the page: its runs lead to the same page.
        query: what the address says after "?".
    """
    page = path if path in PAGES and path not in _WITHOUT_RUN else replay.PATH
    return Runs(
        library.entries(), asked_for(library, query), lambda name: f"{page}?trace={quote(name)}"
    )


def asked_for(library: Library, query: str | None) -> str | None:
    """The name of the trace that an address asks for; None if there is none at all."""
    asked = parse_qs((query or "").removeprefix("?")).get("trace")
    default = library.default()
    return asked[0] if asked else (None if default is None else default.name)


def layout(runs: Runs) -> html.Div:
    """What Dash renders of each page."""
    return html.Div(
        [
            dcc.Location(id=ADDRESS, refresh=False),
            dcc.Interval(id=CLOCK, interval=LOOK_EVERY_MS),
            run_menu(runs),
        ],
        id="runs-slot",
    )
