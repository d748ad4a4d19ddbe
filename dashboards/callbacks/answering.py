"""What the pages that Dash draws have in common: an address says all that they show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dash import Dash, Input, Output, State


def register_page(
    app: Dash,
    body: str,
    address: str,
    fields: tuple[str, str],
    *,
    follow: Callable[[Any], object],
    answer: Callable[[Any, Any, Any], str],
) -> None:
    """Answer for a page's links and for two fields that are typed in.

    Args:
        body, address, fields: the components' names.
        follow: what the body has at an address' query.
        answer: the query for what was typed in the fields at another.
    """
    app.callback([Output(body, "children")], Input(address, "search"), prevent_initial_call=True)(
        lambda search: [follow(search)]
    )
    first, second = fields
    app.callback(
        [Output(address, "search")],
        Input(first, "value"),
        Input(second, "value"),
        State(address, "search"),
        prevent_initial_call=True,
    )(lambda one, other, search: [answer(one, other, search)])
