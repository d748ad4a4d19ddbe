"""The pages that Dash draws, each at its address."""

from __future__ import annotations

from collections.abc import Callable

from dash import Dash
from dash.development.base_component import Component

from zerosim.dashboards.callbacks import plan as planning
from zerosim.dashboards.callbacks import verify as verifying
from zerosim.dashboards.library import Library
from zerosim.dashboards.page import DashParts
from zerosim.dashboards.pages import plan


class DashPages:
    """Verify, and Plan.

    Attributes:
        verify, plan: the contents of each at an address.
    """

    def __init__(self, library: Library, parts: Callable[[], DashParts]) -> None:
        """Create the pages of the library's traces; `parts` as for a page."""
        self.verify = verifying.VerifyPage(library, parts)
        self.plan = planning.PlanPage(parts)

    def layout(self, path: str, query: str) -> Component:
        """The layout of the page at an address; any other address is Verify's."""
        return (self.plan if path == plan.PATH else self.verify).layout(query)

    def register(self, app: Dash) -> None:
        """Handle the controls of all pages."""
        verifying.register(app, self.verify)
        planning.register(app, self.plan)
