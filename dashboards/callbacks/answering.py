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

    Enter in one of them asks for both: were a field asked for as it is left, the answer would take
    the place of what is being typed in the other, and of the focus.

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
        Input(first, "n_submit"),
        Input(second, "n_submit"),
        State(first, "value"),
        State(second, "value"),
        State(address, "search"),
        prevent_initial_call=True,
    )(lambda _, __, one, other, search: [answer(one, other, search)])
