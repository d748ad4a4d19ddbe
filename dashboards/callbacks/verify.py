"""The Verify page is a function of its address: controls write it, and the page follows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlencode

from dash import Dash, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate
from werkzeug.datastructures import MultiDict

from zerosim.base.errors import ZerosimError, first_line
from zerosim.dashboards.api import asked_for, asked_iteration
from zerosim.dashboards.callbacks.answering import register_page
from zerosim.dashboards.components.parts import problem
from zerosim.dashboards.components.verify import BODY, COUNT, PSI, body
from zerosim.dashboards.library import Library
from zerosim.dashboards.page import DashParts
from zerosim.dashboards.pages import verify
from zerosim.dashboards.results import Results
from zerosim.dashboards.texts import SITE
from zerosim.record.text import one_line

ADDRESS = "address"
MOST_REPORTS = 64
"""Verified traces that are kept."""


class VerifyPage:
    """The contents of the page at an address.

    Attributes:
        parts: the data of a page with which Dash starts.
    """

    def __init__(self, library: Library, parts: Callable[[], DashParts]) -> None:
        """Create the page of the library's traces."""
        self.parts = parts
        self._library = library
        self._reports = Results(verify.make_reports, lambda _: 1, MOST_REPORTS)

    def body(self, query: Mapping[str, str]) -> list[Component]:
        """Everything below the tabs.

        Raises:
            ZerosimError: there is no such trace or iteration, or it cannot be shown.
        """
        entry = asked_for(self._library, query)
        reports = self._reports.get(entry, asked_iteration(query))
        return body(verify.view(reports, query), entry.title)

    def layout(self, search: str) -> Component:
        """The page, and the address that it follows."""
        place = dcc.Location(id=ADDRESS, search=search, refresh=False)
        return html.Div([place, html.Div(self.follow(search), id=BODY)])

    def follow(self, search: object) -> list[Component]:
        """The page at another of its addresses, or an error."""
        try:
            return self.body(query_of(search))
        except (ZerosimError, OSError) as error:
            return problem(
                one_line(first_line(error)), SITE("problem.choose_another_run_from_the_list")
            )


def query_of(search: object) -> MultiDict[str, str]:
    """The part of an address after "?"."""
    if not isinstance(search, str):
        raise PreventUpdate  # no page of ours has such an address
    return MultiDict(parse_qsl(search.removeprefix("?"), keep_blank_values=True))


def answer_question(psi: object, count: object, search: object) -> str:
    """The address for the user's own numbers."""
    query = query_of(search)
    if not isinstance(psi, str) or not isinstance(count, str):
        raise PreventUpdate
    shown = verify.question(query)
    if (psi, count) == (shown.psi, shown.n):
        raise PreventUpdate  # the page answers it already
    asked = query.to_dict()
    for name, given, before in (("psi", psi, shown.psi), ("n", count, shown.n)):
        known = asked.pop(name, None)
        if given != before:
            asked[name] = given.replace(",", "").strip()
        elif known is not None:  # unchanged values are omitted
            asked[name] = known
    return f"?{urlencode(asked)}"


def register(app: Dash, page: VerifyPage) -> None:
    """Answer for the page's controls."""
    register_page(app, BODY, ADDRESS, (PSI, COUNT), follow=page.follow, answer=answer_question)
