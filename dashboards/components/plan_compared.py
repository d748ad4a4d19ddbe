"""Two layouts side by side on the page Plan, as Dash components."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from zerosim.dashboards.components.parts import card, cells_of, head_of, table_of
from zerosim.dashboards.pages.plan_compared import ComparedLayouts, ComparedPart
from zerosim.dashboards.texts import SITE, tied


def compared_of(found: ComparedLayouts) -> Component:
    """Two layouts side by side: an overview, the time by cause, the memory by part."""
    head = head_of((SITE("plan.compared_what"),), ("A", "B", SITE("plan.less")))
    bodies = [_part_of(part) for part in found.parts]
    table = table_of(SITE("plan.compared_scrolls"), [head, *bodies], "compared")
    leads = html.P(
        [
            html.A(SITE("plan.compare_swap"), href=found.swapped),
            " · ",
            html.A(SITE("plan.compare_stop"), href=found.alone),
        ],
        className="small",
    )
    said = [
        html.P(tied(found.sentence), id="compared"),
        html.P(found.first, className="small"),
        html.P(found.second, className="small"),
    ]
    return card("compared", SITE("plan.compared_title"), [*said, table, leads])


def _part_of(part: ComparedPart) -> Component:
    head = html.Tr(html.Th(part.title, scope="colgroup", colSpan=4), className="part")
    rows = [
        html.Tr(cells_of((row.what,), (row.first, row.second, row.difference))) for row in part.rows
    ]
    return html.Tbody([head, *rows])
