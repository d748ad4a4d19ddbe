"""Dash components as HTML, so that a page is visible before Dash runs."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from dash import dcc
from dash.development.base_component import Component
from plotly.utils import PlotlyJSONEncoder

_TAGS: dict[type[Component], str] = {dcc.Graph: "div", dcc.Link: "a", dcc.Input: "input"}
_NAMES = {"className": "class", "colSpan": "colspan", "rowSpan": "rowspan", "tabIndex": "tabindex"}
_SHOWN = frozenset({"id", "className", "href", "scope", "colSpan", "rowSpan", "role", "tabIndex",
                    "title", "value", "name", "action", "method", "type", "rows",
                    "placeholder"})  # fmt: skip
_ANSWERED = frozenset({"input", "textarea", "button"})
"""Components that have no use without a server."""
_NOT_SEEN = (dcc.Location,)


def _json(figure: Any) -> str:
    return json.dumps(figure, cls=PlotlyJSONEncoder)


def to_html(part: Any, *, alone: bool = False) -> str:
    """The HTML of a component that Dash has not drawn yet; for a graph, its placeholder.

    Args:
        part: a component, a text, a number, None, or a list of these.
        alone: Dash will not run: a graph's placeholder has its figure as JSON, fields are disabled.
    """
    if part is None or isinstance(part, _NOT_SEEN):
        return ""
    if isinstance(part, (list, tuple)):
        return "".join(to_html(one, alone=alone) for one in part)
    if not isinstance(part, Component):
        return escape(str(part))
    props = vars(part)
    tag = _TAGS.get(type(part)) or type(part).__name__.lower()
    shown = "".join(
        f' {_NAMES.get(name, name)}="{escape(str(value))}"'
        for name, value in sorted(props.items())
        if name in _SHOWN or name.startswith("aria-")
    )
    off = " disabled" if alone and tag in _ANSWERED else ""
    if tag == "input":
        return f"<input{shown}{off}>"
    if alone and isinstance(part, dcc.Graph):
        shown += f' data-figure="{escape(_json(props["figure"]))}"'
    return f"<{tag}{shown}{off}>{to_html(props.get('children'), alone=alone)}</{tag}>"
