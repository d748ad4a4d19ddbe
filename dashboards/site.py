"""Common parts of all pages: their tabs, and the list of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import parse_qs, quote

from zerosim.dashboards.entry import TraceEntry
from zerosim.dashboards.library import Library
from zerosim.dashboards.pages import compare, graph, lessons, plan, puzzles, replay, verify
from zerosim.dashboards.texts import SITE

PAGES = {page.PATH: page.TITLE for page in (replay, compare, verify, graph, plan, lessons, puzzles)}
_WITHOUT_RUN = frozenset({lessons.PATH, plan.PATH, puzzles.PATH})
"""Pages that show no run of the user's."""


@dataclass(frozen=True, slots=True)
class Runs:
    """The contents of the list of runs: a native disclosure with links (`templates/runs.html`).

    Attributes:
        entries: all traces.
        shown: the name of the one on the page.
        page: the target of the links.
    """

    entries: Sequence[TraceEntry]
    shown: str | None
    page: str

    @property
    def title(self) -> str:
        """The text of the closed menu."""
        if not self.entries:
            return SITE("runs.no_runs_yet")
        if self.shown and any(entry.name == self.shown for entry in self.entries):
            return self.shown
        return SITE("runs.choose_a_run")

    def address_of(self, name: str) -> str:
        """The address of a trace."""
        return f"{self.page}?trace={quote(name)}"


def tabs(current: str, name: str | None) -> str:
    """The tabs of all pages as HTML.

    Args:
        current: address of their page.
        name: the displayed trace; the other pages then show the same.
    """
    query = "" if name is None else f"?trace={quote(name)}"
    links = "".join(
        f'<a href="{escape(path + ("" if path in _WITHOUT_RUN else query))}"'
        f"{_CURRENT if path == current or current.startswith(f'{path}/') else ''}>"
        f"{escape(SITE(title))}</a>"
        for path, title in PAGES.items()
    )
    return f'<nav class="tabs" aria-label="{escape(SITE("pages.pages"))}">{links}</nav>'


_CURRENT = ' aria-current="page"'


def runs_of(library: Library, path: str | None, query: str | None) -> Runs:
    """The list of runs beside the requested one.

    Args:
        library: all of them.
        path: path of the page: its runs link to the same page.
        query: the query of the address.
    """
    page = path if path and path in PAGES and path not in _WITHOUT_RUN else replay.PATH
    return Runs(library.entries(), asked_for(library, query), page)


def asked_for(library: Library, query: str | None) -> str | None:
    """The name of the requested trace; None if there is none at all."""
    asked = parse_qs((query or "").removeprefix("?")).get("trace")
    default = library.default()
    return asked[0] if asked else (None if default is None else default.name)
