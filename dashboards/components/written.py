"""Static parts as HTML in one component, because Dash takes longer per part than a browser.

Most parts of a page that Dash draws contain only words and links. `with_written` replaces each part
without controls by one `Written`, which `assets/dash.js` draws as the same elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import dcc
from dash.development.base_component import Component

from zerosim.dashboards.components.markup import to_html

_ANSWERED = (dcc.Graph, dcc.Input, dcc.Location)


class Written(Component):
    """An element whose contents are HTML; `to_html` has escaped all texts."""

    _namespace = "zerosim"
    _type = "Written"
    _children_props = []  # noqa: RUF012 - as Dash declares it
    _base_nodes = []  # noqa: RUF012

    def __init__(self, part: Component) -> None:
        """`part` is the same element as a Dash component."""
        self._prop_names = ["tag", "attributes", "html"]
        self._valid_wildcard_attributes: list[str] = []
        self.available_properties = self._prop_names
        self.available_wildcard_properties: list[str] = []
        attributes = dict(part.to_plotly_json()["props"])  # type: ignore[no-untyped-call]
        inside = attributes.pop("children", None)
        tag = type(part).__name__.lower()
        super().__init__(tag=tag, attributes=attributes, html=to_html(inside))  # type: ignore[no-untyped-call]


def with_written(parts: Sequence[Any], answered: frozenset[str]) -> list[Any]:
    """The same page, with only the components that Dash needs for its callbacks.

    Args:
        answered: names of components that must stay, besides graphs and fields.
    """
    return [_closed(*_written(one, answered)) for one in parts]


def _written(part: Any, answered: frozenset[str]) -> tuple[Any, bool]:
    """A part, and whether Dash answers anything in it."""
    if not isinstance(part, Component):
        return part, False
    children = getattr(part, "children", None)
    listed = children if isinstance(children, (list, tuple)) else [children]
    found = [_written(one, answered) for one in listed]
    if isinstance(part, _ANSWERED) or getattr(part, "id", None) in answered:
        return part, True
    if not any(is_answered for _, is_answered in found):
        return part, False
    part.children = [_closed(one, is_answered) for one, is_answered in found]
    return part, True


def _closed(part: Any, is_answered: bool) -> Any:
    return part if is_answered or not isinstance(part, Component) else Written(part)
